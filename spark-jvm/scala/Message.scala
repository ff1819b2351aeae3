package amqp10msg.spark.jvm

import amqp10msg.spark.jvm.Codes._
import amqp10msg.spark.jvm.Reader.ODD
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.{UnsafeArrayWriter, UnsafeRowWriter}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.bitset.BitSetMethods
import org.apache.spark.unsafe.types.UTF8String

/** Reads messages one by one, each once, into a row that is written over by the next. */
private[jvm] final class Message(plan: Plan) {
  private val r = new Reader
  private val row = new UnsafeRowWriter(plan.size, 1024)
  private val blank = Message.blank(plan.size)
  private val values = new Values(r)
  private val variants = new Variants(r)
  private val json = new Json(r)
  private val joined = new Out
  private val keys = new Array[Int](2 * Message.MAX_PAIRS)
  private val places = new Array[Int](Message.MAX_PAIRS)
  private val keyWriter = new UnsafeArrayWriter(row, 8)
  private val valueWriter = new UnsafeArrayWriter(row, 8)
  private val valueStruct = new UnsafeRowWriter(valueWriter, Tables.MEMBERS)
  private val pickStruct = new UnsafeRowWriter(row, Tables.MEMBERS)
  private val parts = new Parts(row)
  private val lengths = new Lengths(row)
  private var b: Array[Byte] = _
  private var bodies = 0
  private var firstBegin, firstSize = 0

  /** Return the row of a message, of which there may be none; null for an odd message. */
  def read(message: Array[Byte]): UnsafeRow = {
    b = message
    r.begin(message)
    row.reset()
    System.arraycopy(blank, 0, row.getBuffer, 0, blank.length)
    bodies = 0
    parts.begin()
    lengths.begin()
    json.out.size = 0
    joined.size = 0
    if (message != null && (!isOfUsualSize(message) || !readAll())) return null
    row.getRow
  }

  /** Whether there are bytes, and so few that what is written of them fits a row. */
  private def isOfUsualSize(message: Array[Byte]): Boolean =
    message.length > 0 && message.length <= Message.MAX_BYTES

  private def readAll(): Boolean = {
    val end = b.length
    var p = 0
    var last = -1
    if (plan.wire >= 0) bytes(plan.wire, 0, end)
    while (p < end) {
      val start = p
      if (end - p < 4 || b(p) != 0) return false
      val section = descriptor(p, end)
      p += (if ((b(p + 1) & 0xff) == SMALL_ULONG) 3 else 10)
      if (section < 0 || (Tables.FOLLOWING(last + 1) >> section & 1) == 0) return false
      last = section
      val content = p
      p = plan.ways(section) match {
        case Plan.COMPOSITE => composite(plan.fields(section), p, end)
        case Plan.MAPPING => mapping(section, p, end)
        case Plan.BODY => body(section, p, end)
        case _ => r.passOver(p, end)
      }
      if (p < 0) return false
      if (section == Tables.PROPERTIES && plan.hasProperties >= 0) {
        row.write(plan.hasProperties, true)
        there(plan.hasProperties)
      }
      if (plan.offsets >= 0) parts.add(section, start, content, p)
    }
    finish()
    true
  }

  // Cells: null until something is written.

  private def there(place: Int): Unit =
    BitSetMethods.unset(row.getBuffer, Platform.BYTE_ARRAY_OFFSET, place)

  private def bytes(place: Int, from: Int, n: Int): Unit = {
    row.write(place, b, from, n)
    there(place)
  }

  private def bytes(place: Int, made: Array[Byte]): Unit = {
    row.write(place, made)
    there(place)
  }

  private def text(place: Int, made: UTF8String): Unit = {
    row.write(place, made)
    there(place)
  }

  private def number(place: Int, value: Long): Unit = {
    row.write(place, value)
    there(place)
  }

  /** Return the number of a section by its descriptor, or ODD; symbols are odd. */
  private def descriptor(p: Int, end: Int): Int = {
    val code = b(p + 1) & 0xff
    val number =
      if (code == SMALL_ULONG) (b(p + 2) & 0xff).toLong
      else if (code == ULONG && end - p > 10) Bytes.i64(b, p + 2)
      else -1L
    val section = number - Tables.FIRST_CODE
    if (section >= 0 && section < Tables.SECTIONS.length) section.toInt else ODD
  }

  private def finish(): Unit = {
    if (plan.offsets >= 0) {
      parts.write(plan.offsets)
      there(plan.offsets)
    }
    if (bodies > 0 && plan.bodySections >= 0) {
      row.write(plan.bodySections, bodies)
      there(plan.bodySections)
    }
    if (lengths.size > 1) {
      lengths.write(plan.bodyLengths)
      there(plan.bodyLengths)
    }
    if (bodies > 1 && plan.body >= 0 && joined.size > 0) {
      row.write(plan.body, joined.at, 0, joined.size)
      there(plan.body)
    }
    if (plan.bodyJson >= 0 && json.out.size > 0) {
      row.write(plan.bodyJson, json.out.at, 0, json.out.size)
      there(plan.bodyJson)
    }
  }

  // Composites: the header and the properties.

  private def composite(fields: Array[FieldPlan], from: Int, end: Int): Int = {
    if (from >= end) return ODD
    val code = b(from) & 0xff
    var p = from + 1
    var stop = p
    var count = 0
    if (is8or32(code, LIST8)) {
      p = r.compound(p, end, code)
      stop = r.stop
      count = r.count
      if (p < 0 || count > fields.length) return ODD
    } else if (code != LIST0) return ODD
    var i = 0
    while (i < count) {
      if (p >= stop) return ODD
      val f = fields(i)
      val constructor = b(p) & 0xff
      p += 1
      if (constructor != NULL) {
        p = field(f, p, stop, constructor)
        if (p < 0) return ODD
      } else default(f)
      i += 1
    }
    // What is left out at the end of a list is null.
    while (i < fields.length) {
      default(fields(i))
      i += 1
    }
    if (p == stop) p else ODD
  }

  private def default(f: FieldPlan): Unit =
    if (f.default != null && f.place >= 0) fixedCell(f, f.default)

  /** Read a field behind its constructor. */
  private def field(f: FieldPlan, p: Int, stop: Int, code: Int): Int = {
    if (is8or32(code, f.small)) {
      val begin = r.text(p, stop, code)
      if (begin < 0) return ODD
      if (f.place >= 0) {
        bytes(f.place, begin, r.stop - begin)
      }
      // An address is a string, and no type is said of it.
      if (f.second >= 0) text(f.second, NAME(code))
      return r.stop
    }
    if (f.way != Plan.MESSAGE_ID) return fixed(f, p, stop, code)
    val behind = identifier(f, p, stop, code)
    if (behind >= 0 && f.second >= 0) text(f.second, NAME(code))
    behind
  }

  private def fixed(f: FieldPlan, p: Int, stop: Int, code: Int): Int = {
    val width = WIDTH(code)
    if (width == NONE || width > stop - p) return ODD
    val value: Long = f.way match {
      case Plan.BOOLEAN =>
        if (code == TRUE || (code == BOOLEAN && b(p) == 1)) 1
        else if (code == FALSE || (code == BOOLEAN && b(p) == 0)) 0
        else return ODD
      case Plan.UINT =>
        if (code != UINT && code != SMALL_UINT && code != UINT0) return ODD
        Codes.number(b, p, code)
      case Plan.UBYTE =>
        if (code != UBYTE) return ODD
        b(p) & 0xffL
      case Plan.TIMESTAMP =>
        if (code != Codes.TIMESTAMP) return ODD
        val ms = Bytes.i64(b, p)
        if (ms < Tables.FIRST_MS || ms > Tables.LAST_MS) {
          if (f.second >= 0) number(f.second, ms)
          return p + width
        }
        ms * 1000
      case _ => return ODD
    }
    if (f.place >= 0) fixedCell(f, value)
    p + width
  }

  private def fixedCell(f: FieldPlan, value: Long): Unit = {
    f.way match {
      case Plan.BOOLEAN => row.write(f.place, value != 0)
      case Plan.UBYTE => row.write(f.place, value.toShort)
      case _ => row.write(f.place, value)
    }
    there(f.place)
  }

  /** Read a message-id or correlation-id that is not a string. */
  private def identifier(f: FieldPlan, p: Int, stop: Int, code: Int): Int = {
    if (is8or32(code, BINARY8)) {
      val begin = r.sized(p, stop, code)
      if (begin < 0) return ODD
      if (f.place >= 0)
        bytes(f.place, Bytes.hex(b, begin, r.stop - begin))
      return r.stop
    }
    val width = WIDTH(code)
    if (code != UUID && WAY(code) != UNSIGNED || width > stop - p) return ODD
    if (f.place >= 0)
      if (code == UUID) bytes(f.place, Bytes.uuid(b, p))
      else
        text(
          f.place,
          UTF8String.fromString(java.lang.Long.toUnsignedString(Codes.number(b, p, code)))
        )
    p + width
  }

  // Maps: annotations, application properties, the footer.

  /** Read a map section: the whole of it, the entries that are picked, or both. */
  private def mapping(section: Int, p: Int, end: Int): Int = {
    val before = r.spent
    var behind = ODD
    if (plan.variants(section) >= 0) {
      behind = variant(section, p, end)
      if (behind < 0 || plan.picks(section).isEmpty) return behind
      r.spendAgain(before)
    } else if (plan.maps(section) >= 0) {
      behind = map(section, p, end)
      if (behind < 0 || plan.picks(section).isEmpty) return behind
      r.spendAgain(before)
    }
    picked(section, p, end)
  }

  /** Read a map's constructor, size and count: find where its pairs begin. */
  private def open(p: Int, end: Int): Int = {
    if (p >= end || !is8or32(b(p) & 0xff, MAP8)) return ODD
    val begin = r.compound(p + 1, end, b(p) & 0xff)
    if (begin < 0 || (r.count & 1) != 0 || r.count > 2 * Message.MAX_PAIRS) ODD else begin
  }

  private def keyCode(section: Int): Int =
    if (section == Tables.APPLICATION_PROPERTIES) STRING8 else SYMBOL8

  /** How deep values may nest: application properties hold simple values only. */
  private def depth(section: Int): Int =
    if (section == Tables.APPLICATION_PROPERTIES) 0 else Reader.DEPTH

  private def variant(section: Int, p: Int, end: Int): Int = {
    val begin = open(p, end)
    if (begin < 0) return ODD
    val stop = r.stop
    variants.begin()
    val behind = variants.pairs(begin, stop, r.count >> 1, keyCode(section), depth(section))
    if (behind < 0) ODD else variantCell(plan.variants(section), behind)
  }

  /** Write what was made a VARIANT of; ODD where that is too large. */
  private def variantCell(place: Int, behind: Int): Int = {
    if (!variants.write(row, place)) return ODD
    there(place)
    behind
  }

  /** Find the bytes of a key, which must be unlike all keys before it, and end at `r.stop`. */
  private def key(i: Int, small: Int, p: Int, stop: Int): Int = {
    if (p >= stop || !is8or32(b(p) & 0xff, small)) return ODD
    val begin = r.text(p + 1, stop, b(p) & 0xff)
    // A value follows.
    if (begin < 0 || r.stop >= stop) return ODD
    val n = r.stop - begin
    var j = 0
    while (j < i) {
      if (keys(2 * j + 1) == n && Bytes.isSame(b, keys(2 * j), begin, n)) return ODD
      j += 1
    }
    keys(2 * i) = begin
    keys(2 * i + 1) = n
    begin
  }

  private def map(section: Int, p: Int, end: Int): Int = {
    var at = open(p, end)
    if (at < 0) return ODD
    val stop = r.stop
    val count = r.count >> 1
    val begin = row.cursor
    // The size of the array of keys stands before it.
    row.grow(8)
    row.increaseCursor(8)
    keyWriter.initialize(count)
    var i = 0
    while (i < count) {
      val from = key(i, keyCode(section), at, stop)
      if (from < 0) return ODD
      keyWriter.write(i, b, from, r.stop - from)
      places(i) = r.stop
      at = r.passOver(r.stop, stop)
      if (at < 0) return ODD
      i += 1
    }
    if (at != stop) return ODD
    Platform.putLong(row.getBuffer, begin, row.cursor - begin - 8L)
    valueWriter.initialize(count)
    i = 0
    while (i < count) {
      val code = b(places(i)) & 0xff
      val cursor = row.cursor
      at = values.read(valueStruct, places(i) + 1, stop, code, depth(section))
      if (at < 0) return ODD
      valueWriter.setOffsetAndSizeFromPreviousCursor(i, cursor)
      i += 1
    }
    row.setOffsetAndSizeFromPreviousCursor(plan.maps(section), begin)
    there(plan.maps(section))
    stop
  }

  /** Read those entries that are asked for alone. */
  private def picked(section: Int, p: Int, end: Int): Int = {
    var at = open(p, end)
    if (at < 0) return ODD
    val stop = r.stop
    val count = r.count >> 1
    val picks = plan.picks(section)
    var i = 0
    while (i < count) {
      val begin = key(i, keyCode(section), at, stop)
      if (begin < 0) return ODD
      val behind = r.stop
      val code = b(behind) & 0xff
      at = ODD
      var isPicked = false
      val before = r.spent
      var j = 0
      while (j < picks.length) {
        val pick = picks(j)
        if (java.util.Arrays.equals(b, begin, behind, pick.key, 0, pick.key.length)) {
          isPicked = true
          // The same entry may be asked for as several columns, and counts once.
          r.spendAgain(before)
          at =
            if (pick.kind.isEmpty) struct(pick.place, behind, stop, depth(section))
            else plain(pick, behind, stop)
          if (at < 0) return ODD
        }
        j += 1
      }
      if (!isPicked) at = r.passValue(behind + 1, stop, code)
      if (at < 0) return ODD
      i += 1
    }
    if (at == stop) at else ODD
  }

  private def struct(place: Int, p: Int, stop: Int, depth: Int): Int = {
    val cursor = row.cursor
    val behind = values.read(pickStruct, p + 1, stop, b(p) & 0xff, depth)
    if (behind >= 0) {
      row.setOffsetAndSizeFromPreviousCursor(place, cursor)
      there(place)
    }
    behind
  }

  private def plain(pick: Pick, p: Int, stop: Int): Int = {
    val behind = values.plain(row, pick.place, p + 1, stop, b(p) & 0xff, pick.kind)
    if (values.isThere) there(pick.place)
    behind
  }

  // Bodies.

  private def body(section: Int, p: Int, end: Int): Int = {
    bodies += 1
    if (bodies == 1 && plan.bodyKind >= 0) text(plan.bodyKind, Message.KINDS(section))
    if (!plan.needs(section)) return r.passOver(p, end)
    if (p >= end) return ODD
    if (section == Tables.DATA) data(p, end) else content(section, p, end)
  }

  /** Read a data section; the bytes of several are joined. */
  private def data(p: Int, end: Int): Int = {
    val code = b(p) & 0xff
    if (!is8or32(code, BINARY8)) return ODD
    val begin = r.sized(p + 1, end, code)
    if (begin < 0) return ODD
    val n = r.stop - begin
    if (plan.bodyText >= 0) {
      // Python looks across sections.
      if (bodies > 1) return ODD
      if (Bytes.isText(b, begin, r.stop, Bytes.UTF8))
        bytes(plan.bodyText, begin, n)
    }
    if (plan.bodyLengths >= 0) lengths.add(n)
    if (plan.body >= 0) {
      if (bodies == 1) {
        bytes(plan.body, begin, n)
        firstBegin = begin
        firstSize = n
      } else {
        if (bodies == 2) joined.put(b, firstBegin, firstSize)
        joined.put(b, begin, n)
      }
    }
    r.stop
  }

  /** Read an amqp-value, or an amqp-sequence, into those columns that are asked for. */
  private def content(section: Int, p: Int, end: Int): Int = {
    val before = r.spent
    var behind = ODD
    if (plan.bodyText >= 0 && section == Tables.AMQP_VALUE && is8or32(b(p) & 0xff, STRING8)) {
      val begin = r.text(p + 1, end, b(p) & 0xff)
      if (begin < 0) return ODD
      bytes(plan.bodyText, begin, r.stop - begin)
      behind = r.stop
    }
    if (plan.bodyValue >= 0) {
      if (bodies > 1) return ODD
      variants.begin()
      behind =
        if (section == Tables.AMQP_VALUE) variants.typed(p, end) else variants.sequence(p, end)
      if (behind < 0) return ODD
      behind = variantCell(plan.bodyValue, behind)
      if (behind < 0) return ODD
    }
    if (plan.bodyJson >= 0) {
      // What is read twice counts once.
      r.spendAgain(before)
      return typed(section, p, end)
    }
    // Nobody asked for this value, but it has to be right.
    if (behind < 0) json.typed(p, end, Reader.DEPTH) else behind
  }

  /** Read an amqp-value, or one more amqp-sequence, as a body of typed JSON. */
  private def typed(section: Int, p: Int, end: Int): Int = {
    if (section == Tables.AMQP_VALUE) return json.typed(p, end, Reader.DEPTH)
    val code = b(p) & 0xff
    if (code != LIST0 && !is8or32(code, LIST8)) return ODD
    if (bodies > 1) {
      // The list of sections goes on in the place of its closing bracket.
      json.out.size -= 1
      json.out.put(',')
    } else json.out.put('[')
    val behind = json.items(p + 1, end, code, Reader.DEPTH)
    if (behind >= 0) json.out.put(']')
    behind
  }
}

private[jvm] object Message {
  private final val MAX_PAIRS = 128

  /** Typed JSON takes up to some ten times the bytes, and a row at most 2 GiB. */
  private final val MAX_BYTES = 64 << 20

  /** The fixed part of a row of so many nulls. */
  private def blank(columns: Int): Array[Byte] = {
    val bits = UnsafeRow.calculateBitSetWidthInBytes(columns)
    val made = new Array[Byte](bits + 8 * columns)
    (0 until columns).foreach(BitSetMethods.set(made, Platform.BYTE_ARRAY_OFFSET, _))
    made
  }
  private val KINDS = Tables.SECTIONS.map(section => UTF8String.fromString(section.name))
}
