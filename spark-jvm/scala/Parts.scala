package amqp10msg.spark.jvm

import org.apache.spark.sql.catalyst.expressions.codegen.{UnsafeArrayWriter, UnsafeRowWriter}

/** Where the sections of a message stand: a cell of structs of code, offset, content and end. */
private[jvm] final class Parts(row: UnsafeRowWriter) {
  private val array = new UnsafeArrayWriter(row, 8)
  private val struct = new UnsafeRowWriter(array, Parts.MEMBERS)
  private var numbers = new Array[Int](Parts.MEMBERS * Tables.SECTIONS.length)
  private var size = 0

  def begin(): Unit = size = 0

  def add(section: Int, start: Int, content: Int, end: Int): Unit = {
    if (size == numbers.length) numbers = java.util.Arrays.copyOf(numbers, 2 * size)
    numbers(size) = Tables.FIRST_CODE + section
    numbers(size + 1) = start
    numbers(size + 2) = content
    numbers(size + 3) = end
    size += Parts.MEMBERS
  }

  def write(place: Int): Unit = {
    val begin = row.cursor
    array.initialize(size / Parts.MEMBERS)
    var i = 0
    while (i < size) {
      val cursor = row.cursor
      struct.resetRowWriter()
      struct.write(0, numbers(i).toShort)
      struct.write(1, numbers(i + 1).toLong)
      struct.write(2, numbers(i + 2).toLong)
      struct.write(3, numbers(i + 3).toLong)
      array.setOffsetAndSizeFromPreviousCursor(i / Parts.MEMBERS, cursor)
      i += Parts.MEMBERS
    }
    row.setOffsetAndSizeFromPreviousCursor(place, begin)
  }
}

/** The lengths of the data sections of a message: a cell of numbers. */
private[jvm] final class Lengths(row: UnsafeRowWriter) {
  private val array = new UnsafeArrayWriter(row, 8)
  private var numbers = new Array[Int](4)
  var size = 0

  def begin(): Unit = size = 0

  def add(length: Int): Unit = {
    if (size == numbers.length) numbers = java.util.Arrays.copyOf(numbers, 2 * size)
    numbers(size) = length
    size += 1
  }

  def write(place: Int): Unit = {
    val begin = row.cursor
    array.initialize(size)
    var i = 0
    while (i < size) {
      array.write(i, numbers(i).toLong)
      i += 1
    }
    row.setOffsetAndSizeFromPreviousCursor(place, begin)
  }
}

private[jvm] object Parts {
  private final val MEMBERS = 4
}
