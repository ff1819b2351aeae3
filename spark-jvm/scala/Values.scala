package amqp10msg.spark.jvm

import amqp10msg.spark.jvm.Codes._
import amqp10msg.spark.jvm.Reader.ODD
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.types.Decimal
import org.apache.spark.unsafe.bitset.BitSetMethods
import org.apache.spark.unsafe.types.UTF8String

/** The values of map sections: as structs whose members hold one AMQP type each, or as plain ones. */
private[jvm] final class Values(r: Reader) {
  import Values._
  private val json = new Json(r)

  /** Whether the plain value that was read last is of the type that was asked for. */
  var isThere = false

  /** Read a value behind its constructor into a struct; decimals and chars are odd. */
  def read(to: UnsafeRowWriter, p: Int, stop: Int, code: Int, depth: Int): Int = {
    val b = r.b
    val way = WAY(code)
    if (WIDTH(code) == NONE) return ODD
    to.resetRowWriter()
    var i = 1
    while (i < Tables.MEMBERS) {
      to.setNullAt(i)
      i += 1
    }
    to.write(Tables.TYPE, NAME(code))
    if (way == SIZED) {
      val begin = r.text(p, stop, code)
      if (begin < 0) return ODD
      val member = if (RULE(code) == Bytes.ANY) Tables.B else Tables.S
      there(to, member)
      to.write(member, b, begin, r.stop - begin)
      return r.stop
    }
    if (WIDTH(code) > stop - p) return ODD
    if (way == SIGNED) put(to, Tables.L, number(b, p, code))
    else if (way == REAL) put(to, Tables.D, Bytes.i64(b, p))
    else if (way == UNSIGNED) {
      there(to, Tables.U)
      to.write(Tables.U, decimal(number(b, p, code)), DIGITS, 0)
    } else if (code == BOOLEAN) {
      if ((b(p) & 0xff) > 1) return ODD
      put(to, Tables.L, b(p).toLong)
    } else if (code == FLOAT) float(to, p)
    else if (code == UUID) text(to, Bytes.uuid(b, p), 36)
    else if (code == LIST0 || code >= LIST8) {
      json.out.size = 0
      val behind = json.value(p, stop, code, depth)
      if (behind >= 0) text(to, json.out.at, json.out.size)
      return behind
    } else if (way != NOTHING) return ODD
    p + WIDTH(code)
  }

  /** Take back that a member is null. */
  private def there(to: UnsafeRowWriter, member: Int): Unit =
    BitSetMethods.unset(to.getBuffer, to.getFieldOffset(0) - 8, member)

  private def put(to: UnsafeRowWriter, member: Int, bits: Long): Unit = {
    there(to, member)
    to.write(member, bits)
  }

  private def text(to: UnsafeRowWriter, bytes: Array[Byte], n: Int): Unit = {
    there(to, Tables.S)
    to.write(Tables.S, bytes, 0, n)
  }

  private def float(to: UnsafeRowWriter, p: Int): Unit = {
    val bits = Bytes.i32(r.b, p)
    var double = java.lang.Float.intBitsToFloat(bits).toDouble
    if ((bits & 0x7f800000) == 0x7f800000 && (bits & 0x7fffff) != 0) {
      // As a double, the bits of this NaN would be lost.
      there(to, Tables.B)
      to.write(Tables.B, r.b, p, 4)
      double = Double.NaN
    }
    put(to, Tables.D, java.lang.Double.doubleToRawLongBits(double))
  }

  /** Read a value behind its constructor into a cell, as a type of SQL.
    *
    * What SQL and Arrow may write in different ways is odd.
    */
  def plain(to: UnsafeRowWriter, place: Int, p: Int, stop: Int, code: Int, kind: String): Int = {
    val b = r.b
    isThere = false
    if (code == LIST0 || code >= LIST8) return ODD
    val behind = r.passValue(p, stop, code)
    if (behind < 0 || isRare(code)) return ODD
    val way = WAY(code)
    val isBoolean = code == TRUE || code == FALSE || code == BOOLEAN
    val isWhole = way == SIGNED && code != TIMESTAMP && !isBoolean
    val isReal = way == REAL || code == FLOAT
    def truth = if (code == BOOLEAN) b(p) == 1 else code == TRUE
    isThere = true
    kind match {
      case "string" =>
        if (way == SIZED && RULE(code) != Bytes.ANY)
          to.write(place, b, r.stop - size(p, code), size(p, code))
        else if (code == UUID) to.write(place, Bytes.uuid(b, p))
        else if (isWhole) to.write(place, UTF8String.fromString(number(b, p, code).toString))
        else if (isBoolean) to.write(place, UTF8String.fromString(truth.toString))
        else if (isReal || way == UNSIGNED) return ODD
        else isThere = false
      case "bigint" =>
        isThere = isWhole || (way == UNSIGNED && number(b, p, code) >= 0)
        if (isThere) to.write(place, number(b, p, code))
      case "double" =>
        if (way == REAL) to.write(place, Bytes.i64(b, p))
        else if (code == FLOAT) {
          val found = java.lang.Float.intBitsToFloat(Bytes.i32(b, p)).toDouble
          to.write(place, java.lang.Double.doubleToLongBits(found))
        } else if (isWhole)
          to.write(place, java.lang.Double.doubleToRawLongBits(number(b, p, code).toDouble))
        else if (way == UNSIGNED) return ODD
        else isThere = false
      case "boolean" =>
        isThere = isBoolean
        if (isThere) to.write(place, truth)
      case "timestamp" =>
        val ms = if (code == TIMESTAMP) Bytes.i64(b, p) else Long.MaxValue
        isThere = Tables.FIRST_MS <= ms && ms <= Tables.LAST_MS
        if (isThere) to.write(place, ms * 1000)
      case _ =>
        isThere = code == BINARY8 || code == BINARY8 + LARGE
        if (isThere) to.write(place, b, r.stop - size(p, code), size(p, code))
    }
    behind
  }

  private def size(p: Int, code: Int): Int = r.stop - p - WIDTH(code)

  private def isRare(code: Int): Boolean =
    WAY(code) == OTHER && code != BOOLEAN && code != FLOAT && code != UUID
}

private[jvm] object Values {
  private final val DIGITS = 20
  private def decimal(bits: Long): Decimal =
    Decimal(BigDecimal(java.lang.Long.toUnsignedString(bits)), DIGITS, 0)
}
