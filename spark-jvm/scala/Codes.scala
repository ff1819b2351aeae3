package amqp10msg.spark.jvm

import java.nio.charset.StandardCharsets.ISO_8859_1

import org.apache.spark.unsafe.types.UTF8String

/** A constructor of Part 1, 1.6, as it is in the declarations. */
private[jvm] final class FormatCode(val code: Int, val width: Int, val kind: String)

/** What follows a constructor, by format code. */
private[jvm] object Codes {
  final val NULL = 0x40
  final val TRUE = 0x41
  final val FALSE = 0x42
  final val UINT0 = 0x43
  final val LIST0 = 0x45
  final val UBYTE = 0x50
  final val SMALL_UINT = 0x52
  final val SMALL_ULONG = 0x53
  final val BOOLEAN = 0x56
  final val UINT = 0x70
  final val FLOAT = 0x72
  final val CHAR = 0x73
  final val ULONG = 0x80
  final val TIMESTAMP = 0x83
  final val UUID = 0x98
  // The constructors of 32-bit sizes are 0x10 above those of 8-bit sizes.
  final val LARGE = 0x10
  final val BINARY8 = 0xa0
  final val STRING8 = 0xa1
  final val SYMBOL8 = 0xa3
  final val LIST8 = 0xc0
  final val MAP8 = 0xc1
  final val ARRAY8 = 0xe0

  // How a value is read. OTHER needs handling of its own, or is no format code.
  final val OTHER = 0
  final val NOTHING = 1 // null
  final val SIGNED = 2 // a boolean without content, or any integer but ulong
  final val UNSIGNED = 3 // ulong
  final val REAL = 4 // double
  final val SIZED = 5 // string, symbol, binary

  /** The width of what is no format code. */
  final val NONE = -1

  /** The bytes that follow a constructor; of a variable width, those of the size. */
  val WIDTH: Array[Int] = Array.fill(256)(NONE)
  val WAY: Array[Int] = new Array(256)
  val RULE: Array[Int] = new Array(256)

  /** The names of types, as text and as typed JSON begins. */
  val NAME: Array[UTF8String] = new Array(256)
  val OPENING: Array[Array[Byte]] = new Array(256)

  // How numbers are cut out of their bytes.
  private val IS_SIGNED: Array[Boolean] = new Array(256)

  for (row <- Tables.FORMAT_CODES) {
    val code = row.code
    WIDTH(code) = row.width
    NAME(code) = UTF8String.fromString(row.kind)
    OPENING(code) = ("[\"" + row.kind + "\"").getBytes(ISO_8859_1)
    WAY(code) = row.kind match {
      case _ if code == BOOLEAN => OTHER
      case "null" => NOTHING
      case "ulong" => UNSIGNED
      case "double" => REAL
      case "string" | "symbol" | "binary" => SIZED
      case "byte" | "short" | "int" | "long" | "timestamp" => SIGNED
      case "boolean" | "ubyte" | "ushort" | "uint" => SIGNED
      case _ => OTHER
    }
    IS_SIGNED(code) = Set("byte", "short", "int", "long", "timestamp").contains(row.kind)
    RULE(code) = row.kind match {
      case "string" => Bytes.UTF8
      case "symbol" => Bytes.ASCII
      case _ => Bytes.ANY
    }
  }

  def isLarge(code: Int): Boolean = (code & LARGE) != 0

  def is8or32(code: Int, small: Int): Boolean = code == small || code == small + LARGE

  /** The number of a value of way SIGNED or UNSIGNED, whose bytes are there. */
  def number(b: Array[Byte], p: Int, code: Int): Long = WIDTH(code) match {
    case 0 => if (code == TRUE) 1L else 0L
    case 1 => if (IS_SIGNED(code)) b(p).toLong else (b(p) & 0xff).toLong
    case 2 =>
      val found = (b(p) << 8) | (b(p + 1) & 0xff)
      if (IS_SIGNED(code)) found.toLong else (found & 0xffff).toLong
    case 4 =>
      val found = Bytes.i32(b, p).toLong
      if (IS_SIGNED(code)) found else found & 0xffffffffL
    case _ => Bytes.i64(b, p)
  }
}
