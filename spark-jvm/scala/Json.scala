package amqp10msg.spark.jvm

import java.nio.charset.StandardCharsets.ISO_8859_1

import amqp10msg.spark.jvm.Codes._
import amqp10msg.spark.jvm.Reader.ODD

/** Values as typed JSON, as `amqp10msg.notation` has it.
  *
  * Described values, chars and maps of many pairs or with keys that are no texts are odd.
  */
private[jvm] final class Json(r: Reader) {
  private def b: Array[Byte] = r.b
  val out = new Out

  /** Write a value with its constructor. */
  def typed(p: Int, end: Int, depth: Int): Int =
    if (p < end) value(p + 1, end, b(p) & 0xff, depth) else ODD

  /** Write a value behind its constructor. */
  def value(p: Int, end: Int, code: Int, depth: Int): Int = {
    val width = WIDTH(code)
    if (width == NONE) return ODD
    out.put(OPENING(code))
    var behind = p
    if (WAY(code) != NOTHING) {
      out.put(',')
      if (is8or32(code, ARRAY8)) behind = array(p, end, code, depth - 1)
      else if (code == LIST0 || code >= LIST8) behind = items(p, end, code, depth - 1)
      else if (WAY(code) == SIZED) behind = sized(p, end, code)
      else if (width <= end - p && fixed(p, code)) behind = p + width
      else return ODD
    }
    if (behind >= 0) out.put(']')
    behind
  }

  private def sized(p: Int, end: Int, code: Int): Int = {
    val begin = r.text(p, end, code)
    if (begin < 0) return ODD
    if (RULE(code) == Bytes.ANY) out.hex(b, begin, r.stop - begin)
    else string(begin, r.stop)
    r.stop
  }

  private def fixed(p: Int, code: Int): Boolean = {
    if (code == TRUE || (code == BOOLEAN && b(p) == 1)) out.put(Json.TRUE_TEXT)
    else if (code == FALSE || (code == BOOLEAN && b(p) == 0)) out.put(Json.FALSE_TEXT)
    else if (WAY(code) == SIGNED) out.ascii(java.lang.Long.toString(number(b, p, code)))
    else if (WAY(code) == UNSIGNED)
      out.ascii(java.lang.Long.toUnsignedString(number(b, p, code)))
    else if (code == BOOLEAN || code == CHAR) return false
    else out.hex(b, p, WIDTH(code)) // the bits of floating-point numbers and UUIDs
    true
  }

  /** Write text between quotes, escaping what Python's `json` does. */
  private def string(from: Int, until: Int): Unit = {
    out.put('"')
    var p = from
    var run = from
    while (p < until) {
      val c = b(p)
      if ((c >= 0 && c < 32) || c == '"' || c == '\\') {
        out.put(b, run, p - run)
        run = p + 1
        out.put('\\')
        val short = Json.SHORT_ESCAPES(c)
        if (short != 0) out.put(short)
        else {
          out.put(Json.UNICODE)
          out.room(2)
          Bytes.writeHex(out.at, out.size, b, p, 1)
          out.size += 2
        }
      }
      p += 1
    }
    out.put(b, run, p - run)
    out.put('"')
  }

  /** Write the values of a list, or the pairs of a map, between brackets. */
  def items(p: Int, end: Int, code: Int, depth: Int): Int = {
    val pairs = is8or32(code, MAP8)
    if (depth < 0 || (!pairs && code != LIST0 && !is8or32(code, LIST8))) return ODD
    var at = p
    var stop = p
    var count = 0
    if (code != LIST0) {
      at = r.compound(p, end, code)
      if (at < 0) return ODD
      stop = r.stop
      count = r.count
      if (pairs && ((count & 1) != 0 || count > 2 * Json.MAX_PAIRS)) return ODD
    }
    val keys = if (pairs) new Array[Int](count) else null
    out.put('[')
    var i = 0
    while (i < count) {
      if (i != 0) out.put(',')
      if (pairs && (i & 1) == 0) {
        out.put('[')
        if (!isNewKey(at, stop, keys, i)) return ODD
      }
      at = typed(at, stop, depth)
      if (at < 0) return ODD
      if (pairs && (i & 1) != 0) out.put(']')
      i += 1
    }
    out.put(']')
    if (at == stop) at else ODD
  }

  /** Note where the text of a key begins and ends. Symbols and strings of one text are odd. */
  private def isNewKey(p: Int, stop: Int, keys: Array[Int], i: Int): Boolean = {
    if (p >= stop) return false
    val code = b(p) & 0xff
    if (WAY(code) != SIZED || RULE(code) == Bytes.ANY) return false
    val begin = r.sized(p + 1, stop, code)
    if (begin < 0) return false
    val n = r.stop - begin
    var j = 0
    while (j < i) {
      if (keys(j + 1) == n && Bytes.isSame(b, keys(j), begin, n)) return false
      j += 2
    }
    keys(i) = begin
    keys(i + 1) = n
    true
  }

  /** Write the element constructor of an array and its values. */
  private def array(p: Int, end: Int, code: Int, depth: Int): Int = {
    val wide = WIDTH(code)
    if (depth < 0 || end - p < 2 * wide + 1) return ODD
    val size = if (wide == 1) b(p) & 0xff else Bytes.i32(b, p)
    if (size < wide + 1 || size > end - p - wide) return ODD
    val stop = p + wide + size
    val count = if (wide == 1) b(p + 1) & 0xff else Bytes.i32(b, p + 4)
    val element = b(p + 2 * wide) & 0xff
    if (!r.takeItems(count) || WIDTH(element) == NONE) return ODD
    if (WIDTH(element) == 0 && !r.takeZeroWidth(count)) return ODD
    out.hex(b, p + 2 * wide, 1)
    out.put(',')
    out.put('[')
    var at = p + 2 * wide + 1
    var i = 0
    while (i < count) {
      if (i != 0) out.put(',')
      at = value(at, stop, element, depth)
      if (at < 0) return ODD
      i += 1
    }
    out.put(']')
    if (at == stop) at else ODD
  }
}

private[jvm] object Json {
  private final val MAX_PAIRS = 64
  private val TRUE_TEXT = "true".getBytes(ISO_8859_1)
  private val FALSE_TEXT = "false".getBytes(ISO_8859_1)
  private val UNICODE = "u00".getBytes(ISO_8859_1)

  /** By ASCII code: the letter behind the backslash, where JSON has a short escape. */
  private val SHORT_ESCAPES = new Array[Byte](128)
  for ((plain, short) <- "\"\\\b\f\n\r\t".zip("\"\\bfnrt")) SHORT_ESCAPES(plain) = short.toByte
}
