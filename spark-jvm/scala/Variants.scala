package amqp10msg.spark.jvm

import amqp10msg.spark.jvm.Codes._
import amqp10msg.spark.jvm.Reader.ODD
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.unsafe.Platform

/** One value as VARIANT, in the same bytes that `amqp10msg.columns` writes.
  *
  * Arrays, described values, decimals, chars, and maps with keys that are no texts or with very many
  * are odd.
  */
private[jvm] final class Variants(r: Reader) {
  private def b: Array[Byte] = r.b
  private val metadata = new Out
  private val out = new Out
  // The keys of all objects, in the order in which they come first: begin and size.
  private var keys = new Array[Int](32)
  private var keyCount = 0
  private var keyBytes = 0

  def begin(): Unit = {
    out.size = 0
    keyCount = 0
    keyBytes = 0
  }

  /** Write what was made into a cell; return whether it is not too large. */
  def write(row: UnsafeRowWriter, place: Int): Boolean = {
    metadata.size = 0
    val width = Variants.width(Math.max(keyBytes, keyCount))
    metadata.put(1 | (width - 1) << 6)
    metadata.little(keyCount, width)
    metadata.little(0, width)
    var end = 0
    var i = 0
    while (i < keyCount) {
      end += keys(2 * i + 1)
      metadata.little(end, width)
      i += 1
    }
    i = 0
    while (i < keyCount) {
      metadata.put(b, keys(2 * i), keys(2 * i + 1))
      i += 1
    }
    if (Math.max(metadata.size, out.size) > Tables.MOST_OF_VARIANT) return false
    // A VariantVal would be two copies more. In a row: the size of the value, the value, the
    // metadata, and zeros up to a whole word.
    val size = 4 + out.size + metadata.size
    val room = (size + 7) & ~7
    row.grow(room)
    val begin = row.cursor
    val to = row.getBuffer
    val at = (begin - Platform.BYTE_ARRAY_OFFSET).toInt
    Platform.putLong(to, begin + room - 8, 0L)
    Platform.putInt(to, begin, out.size)
    System.arraycopy(out.at, 0, to, at + 4, out.size)
    System.arraycopy(metadata.at, 0, to, at + 4 + out.size, metadata.size)
    row.increaseCursor(room)
    row.write(place, at.toLong << 32 | size)
    true
  }

  /** Write the value of an amqp-sequence as an array of one list. */
  def sequence(p: Int, end: Int): Int = {
    if (p >= end) return ODD
    val behind = compound(p + 1, end, b(p) & 0xff, Reader.DEPTH)
    if (behind < 0 || (out.at(0) & 3) != Variants.ARRAY) return ODD
    val size = out.size
    val width = Variants.width(size)
    out.move(0, 2 + 2 * width)
    out.size = 0
    out.put((width - 1) << 2 | Variants.ARRAY)
    out.put(1)
    out.little(0, width)
    out.little(size, width)
    out.size += size
    behind
  }

  /** Write a value with its constructor. */
  def typed(p: Int, end: Int): Int =
    if (p < end) value(p + 1, end, b(p) & 0xff, Reader.DEPTH) else ODD

  /** Write a value behind its constructor. */
  private def value(p: Int, end: Int, code: Int, depth: Int): Int = {
    val way = WAY(code)
    if (way == SIZED) {
      val begin = r.text(p, end, code)
      if (begin < 0) return ODD
      val n = r.stop - begin
      if (RULE(code) == Bytes.ANY) tagged(Variants.BINARY, n, 4)
      else if (n <= Variants.LONGEST_SHORT_TEXT) out.put(n << 2 | Variants.SHORT_TEXT)
      else tagged(Variants.TEXT, n, 4)
      out.put(b, begin, n)
      return r.stop
    }
    val n = WIDTH(code)
    if (n == NONE) return ODD
    if (code == LIST0 || code >= LIST8) return compound(p, end, code, depth - 1)
    if (n > end - p) return ODD
    if (way == NOTHING) out.put(Variants.NULL)
    else if (code == TRUE || code == FALSE) boolean(code == TRUE)
    else if (code == BOOLEAN) {
      if ((b(p) & 0xff) > 1) return ODD
      boolean(b(p) == 1)
    } else if (way == SIGNED) {
      val found = number(b, p, code)
      if (code == TIMESTAMP && Tables.FIRST_MS <= found && found <= Tables.LAST_MS)
        tagged(Variants.TIMESTAMP, found * 1000, 8)
      else whole(found)
    } else if (way == UNSIGNED) unsigned(number(b, p, code))
    else if (way == REAL) tagged(Variants.DOUBLE, Bytes.i64(b, p), 8)
    else if (code == FLOAT) tagged(Variants.FLOAT, Bytes.i32(b, p), 4)
    else if (code == UUID) {
      out.put(36 << 2 | Variants.SHORT_TEXT)
      out.put(Bytes.uuid(b, p))
    } else return ODD
    p + n
  }

  private def tagged(tag: Int, number: Long, width: Int): Unit = {
    out.put(tag)
    out.little(number, width)
  }

  private def boolean(value: Boolean): Unit = out.put(if (value) Variants.TRUE else Variants.FALSE)

  /** Write an integer in the fewest of 1, 2, 4 and 8 bytes. */
  private def whole(number: Long): Unit = {
    val power =
      if (number == number.toByte) 0
      else if (number == number.toShort) 1
      else if (number == number.toInt) 2
      else 3
    tagged(Variants.INT8 + 4 * power, number, 1 << power)
  }

  private def unsigned(number: Long): Unit =
    if (number >= 0) whole(number)
    else {
      out.put(Variants.DECIMAL16)
      out.put(0)
      out.little(number, 8)
      out.little(0, 8)
    }

  private def compound(p: Int, end: Int, code: Int, depth: Int): Int = {
    val isMap = is8or32(code, MAP8)
    if (depth < 0 || (!isMap && code != LIST0 && !is8or32(code, LIST8))) return ODD
    if (code == LIST0) return elements(p, p, 0, depth)
    val begin = r.compound(p, end, code)
    if (begin < 0) return ODD
    val stop = r.stop
    val count = r.count
    if (!isMap) elements(begin, stop, count, depth)
    else if ((count & 1) != 0) ODD
    else pairs(begin, stop, count >> 1, 0, depth)
  }

  private def idOf(begin: Int, n: Int): Int = {
    var i = 0
    while (i < keyCount) {
      if (keys(2 * i + 1) == n && Bytes.isSame(b, keys(2 * i), begin, n)) return i
      i += 1
    }
    if (keyCount == Variants.MOST_KEYS) return ODD
    if (2 * keyCount == keys.length) keys = java.util.Arrays.copyOf(keys, 2 * keys.length)
    keys(2 * keyCount) = begin
    keys(2 * keyCount + 1) = n
    keyBytes += n
    keyCount += 1
    keyCount - 1
  }

  /** Write the pairs of a map as an object; a `keyCode` is what keys must be, 0 for any text. */
  def pairs(p: Int, stop: Int, count: Int, keyCode: Int, depth: Int): Int = {
    if (count > Variants.MOST_KEYS) return ODD
    val ids = new Array[Int](count)
    val starts = new Array[Int](count)
    val begin = out.size
    var at = p
    var low, high = 0L // the keys that were there, as bits
    var i = 0
    while (i < count) {
      if (at >= stop) return ODD
      val code = b(at) & 0xff
      if (keyCode != 0) {
        if (!is8or32(code, keyCode)) return ODD
      } else if (WAY(code) != SIZED || RULE(code) == Bytes.ANY) return ODD
      val key = r.text(at + 1, stop, code)
      // A value follows.
      if (key < 0 || r.stop >= stop) return ODD
      val id = idOf(key, r.stop - key)
      if (id < 0) return ODD
      val bit = 1L << (id & 63)
      // Neither a duplicate nor a symbol and a string of one text is judged here.
      if (((if (id < 64) low else high) & bit) != 0) return ODD
      if (id < 64) low |= bit else high |= bit
      ids(i) = id
      starts(i) = out.size - begin
      at = value(r.stop + 1, stop, b(r.stop) & 0xff, depth)
      if (at < 0) return ODD
      i += 1
    }
    if (at != stop || !close(begin, ids, starts)) return ODD
    at
  }

  /** Write the head of an object before its values. */
  private def close(begin: Int, ids: Array[Int], starts: Array[Int]): Boolean = {
    val count = ids.length
    val size = out.size - begin
    val width = Variants.width(size)
    // Messages have few properties, and mostly in the same order.
    val order = new Array[Int](count)
    var i = 0
    while (i < count) {
      var j = i
      while (j > 0 && precedes(ids(i), ids(order(j - 1)))) {
        order(j) = order(j - 1)
        j -= 1
      }
      order(j) = i
      i += 1
    }
    val head = 2 + count + width * (count + 1)
    out.move(begin, head)
    val end = out.size
    out.size = begin
    // The numbers of keys, which are fewer than 256, and how many there are, take a byte each.
    out.put((width - 1) << 2 | Variants.OBJECT)
    out.put(count)
    i = 0
    while (i < count) {
      out.put(ids(order(i)))
      i += 1
    }
    i = 0
    while (i < count) {
      out.little(starts(order(i)), width)
      i += 1
    }
    out.little(size, width)
    out.size = end
    head + size <= Tables.MOST_OF_VARIANT
  }

  private def precedes(id: Int, other: Int): Boolean =
    java.util.Arrays.compareUnsigned(
      b,
      keys(2 * id),
      keys(2 * id) + keys(2 * id + 1),
      b,
      keys(2 * other),
      keys(2 * other) + keys(2 * other + 1)
    ) < 0

  /** Write the values of a list as an array. */
  private def elements(p: Int, stop: Int, count: Int, depth: Int): Int = {
    val starts = new Array[Int](count)
    val begin = out.size
    var at = p
    var i = 0
    while (i < count) {
      starts(i) = out.size - begin
      if (at >= stop) return ODD
      at = value(at + 1, stop, b(at) & 0xff, depth)
      if (at < 0) return ODD
      i += 1
    }
    if (at != stop) return ODD
    val size = out.size - begin
    val width = Variants.width(size)
    val isLarge = count > 255
    val head = (if (isLarge) 5 else 2) + width * (count + 1)
    out.move(begin, head)
    val end = out.size
    out.size = begin
    out.put((width - 1) << 2 | (if (isLarge) 1 << 4 else 0) | Variants.ARRAY)
    out.little(count, if (isLarge) 4 else 1)
    i = 0
    while (i < count) {
      out.little(starts(i), width)
      i += 1
    }
    out.little(size, width)
    out.size = end
    if (head + size <= Tables.MOST_OF_VARIANT) at else ODD
  }
}

private[jvm] object Variants {
  final val MOST_KEYS = 128
  // Basic types, and primitive ones with their two bits of the basic type.
  private final val SHORT_TEXT = 1
  private final val OBJECT = 2
  private final val ARRAY = 3
  private final val NULL = 0 << 2
  private final val TRUE = 1 << 2
  private final val FALSE = 2 << 2
  private final val INT8 = 3 << 2
  private final val DOUBLE = 7 << 2
  private final val DECIMAL16 = 10 << 2
  private final val TIMESTAMP = 12 << 2
  private final val FLOAT = 14 << 2
  private final val BINARY = 15 << 2
  private final val TEXT = 16 << 2
  private final val LONGEST_SHORT_TEXT = 63

  /** In how many bytes a number is written. */
  private def width(number: Int): Int =
    if (number < 0x100) 1 else if (number < 0x10000) 2 else if (number < 0x1000000) 3 else 4
}
