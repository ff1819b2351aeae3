package amqp10msg.spark.jvm

import amqp10msg.spark.jvm.Codes._

/** The bytes of one message, and what it may still cost.
  *
  * A place in the bytes goes in, and the place behind what was read comes back, or `Reader.ODD`:
  * then the message is wrong, or rare, and Python reads it. Every size is compared with what is left
  * before it is used.
  */
private[jvm] final class Reader {
  var b: Array[Byte] = _
  private var items = Tables.MAX_ITEMS
  private var zeroWidth = Tables.MAX_ZERO_WIDTH

  // What was read last, besides the place behind it.
  var stop = 0
  var count = 0

  def begin(message: Array[Byte]): Unit = {
    b = message
    items = Tables.MAX_ITEMS
    zeroWidth = Tables.MAX_ZERO_WIDTH
  }

  /** What has been spent, so that what is read twice counts once. */
  def spent: Long = items.toLong << 32 | zeroWidth

  def spendAgain(before: Long): Unit = {
    items = (before >> 32).toInt
    zeroWidth = before.toInt
  }

  def takeItems(n: Int): Boolean = {
    if (n < 0 || n > items) return false
    items -= n
    true
  }

  def takeZeroWidth(n: Int): Boolean = {
    if (n < 0 || n > zeroWidth) return false
    zeroWidth -= n
    true
  }

  /** Find where a string, a symbol or a binary begins, which ends at `stop`. */
  def sized(p: Int, end: Int, code: Int): Int = {
    val width = WIDTH(code)
    if (width > end - p) return Reader.ODD
    val n = if (isLarge(code)) Bytes.i32(b, p) else b(p) & 0xff
    if (n < 0 || n > end - p - width) return Reader.ODD
    stop = p + width + n
    p + width
  }

  /** Find where a text begins that keeps its rule, and ends at `stop`. */
  def text(p: Int, end: Int, code: Int): Int = {
    val begin = sized(p, end, code)
    if (begin >= 0 && Bytes.isText(b, begin, stop, RULE(code))) begin else Reader.ODD
  }

  /** Read the size and the count of a list or a map: find where its items begin. */
  def compound(p: Int, end: Int, code: Int): Int = {
    val width = if (isLarge(code)) 4 else 1
    if (2 * width > end - p) return Reader.ODD
    val size = if (width == 4) Bytes.i32(b, p) else b(p) & 0xff
    if (size < width || size > end - p - width) return Reader.ODD
    stop = p + width + size
    count = if (width == 4) Bytes.i32(b, p + 4) else b(p + 1) & 0xff
    val begin = p + 2 * width
    if (count <= stop - begin && takeItems(count)) begin else Reader.ODD
  }

  /** Pass over one value that is not described, by its size. */
  def passOver(p: Int, end: Int): Int = {
    if (p >= end) return Reader.ODD
    val code = b(p) & 0xff
    val width = WIDTH(code)
    if (width == NONE) return Reader.ODD
    if (code >= BINARY8) {
      val begin = sized(p + 1, end, code)
      if (begin < 0) begin else stop
    } else if (width <= end - p - 1) p + 1 + width
    else Reader.ODD
  }

  /** Check a value that nobody asked for, behind its constructor. */
  def passValue(p: Int, end: Int, code: Int): Int = {
    if (WAY(code) == SIZED) {
      val begin = text(p, end, code)
      return if (begin < 0) begin else stop
    }
    val width = WIDTH(code)
    if (width == NONE || width > end - p || !isSound(p, code)) Reader.ODD else p + width
  }

  private def isSound(p: Int, code: Int): Boolean =
    if (WAY(code) != OTHER) true
    else if (code == BOOLEAN) b(p) == 0 || b(p) == 1
    else code != CHAR && code < BINARY8 && code != LIST0
}

private[jvm] object Reader {
  final val ODD = -1

  /** How deep lists, maps and arrays nest in what is read here. */
  final val DEPTH = 16
}
