package amqp10msg.spark.jvm

import java.nio.charset.StandardCharsets.ISO_8859_1

import org.apache.spark.unsafe.Platform

/** Numbers in network order, what is text, and hexadecimal digits. */
private[jvm] object Bytes {
  final val HIGH = 0x8080808080808080L
  private val DIGITS = "0123456789abcdef".getBytes(ISO_8859_1)

  /** What the bytes of a string, a symbol or a binary must be. */
  final val ANY = 0
  final val ASCII = 1
  final val UTF8 = 2

  def u8(b: Array[Byte], p: Int): Int = b(p) & 0xff

  /** Four bytes as a number; negative where it is larger than what an array can hold. */
  def i32(b: Array[Byte], p: Int): Int =
    (b(p) << 24) | ((b(p + 1) & 0xff) << 16) | ((b(p + 2) & 0xff) << 8) | (b(p + 3) & 0xff)

  def i64(b: Array[Byte], p: Int): Long =
    (i32(b, p).toLong << 32) | (i32(b, p + 4) & 0xffffffffL)

  def isAscii(b: Array[Byte], from: Int, until: Int): Boolean = {
    var p = from
    var high = 0L
    while (p + 8 <= until) {
      high |= Platform.getLong(b, Platform.BYTE_ARRAY_OFFSET + p)
      p += 8
    }
    while (p < until) {
      high |= b(p).toLong
      p += 1
    }
    (high & HIGH) == 0
  }

  /** Whether bytes are UTF-8 (RFC 3629), as Python has it. */
  def isUtf8(b: Array[Byte], from: Int, until: Int): Boolean = {
    var p = from
    while (p < until) {
      val lead = u8(b, p)
      p += 1
      if (lead >= 0x80) {
        val more = if (lead < 0xc2) 0 else if (lead < 0xe0) 1 else if (lead < 0xf0) 2 else 3
        if (more == 0 || lead > 0xf4 || until - p < more) return false
        // The range of the second byte excludes overlong forms, surrogates and what is too large.
        val low = if (lead == 0xe0) 0xa0 else if (lead == 0xf0) 0x90 else 0x80
        val most = if (lead == 0xed) 0x9f else if (lead == 0xf4) 0x8f else 0xbf
        val second = u8(b, p)
        if (second < low || second > most) return false
        var i = 1
        while (i < more) {
          if ((b(p + i) & 0xc0) != 0x80) return false
          i += 1
        }
        p += more
      }
    }
    true
  }

  def isText(b: Array[Byte], from: Int, until: Int, rule: Int): Boolean =
    rule == ANY || isAscii(b, from, until) || (rule == UTF8 && isUtf8(b, from, until))

  def isSame(b: Array[Byte], p: Int, other: Int, n: Int): Boolean =
    java.util.Arrays.equals(b, p, p + n, b, other, other + n)

  def hex(b: Array[Byte], from: Int, n: Int): Array[Byte] = {
    val out = new Array[Byte](2 * n)
    writeHex(out, 0, b, from, n)
    out
  }

  def writeHex(out: Array[Byte], at: Int, b: Array[Byte], from: Int, n: Int): Unit = {
    var i = 0
    while (i < n) {
      out(at + 2 * i) = DIGITS((b(from + i) >> 4) & 15)
      out(at + 2 * i + 1) = DIGITS(b(from + i) & 15)
      i += 1
    }
  }

  /** The 36 characters of a UUID. */
  def uuid(b: Array[Byte], from: Int): Array[Byte] = {
    val out = new Array[Byte](36)
    var at = 0
    var i = 0
    while (i < 16) {
      if (i == 4 || i == 6 || i == 8 || i == 10) {
        out(at) = '-'
        at += 1
      }
      writeHex(out, at, b, from + i, 1)
      at += 2
      i += 1
    }
    out
  }
}

/** Bytes that grow. */
private[jvm] final class Out {
  var at: Array[Byte] = new Array[Byte](256)
  var size = 0

  def room(n: Int): Unit =
    if (n > at.length - size) at = java.util.Arrays.copyOf(at, Math.max(2 * at.length, size + n))

  def put(octet: Int): Unit = {
    room(1)
    at(size) = octet.toByte
    size += 1
  }

  def put(b: Array[Byte], from: Int, n: Int): Unit = {
    room(n)
    System.arraycopy(b, from, at, size, n)
    size += n
  }

  def put(b: Array[Byte]): Unit = put(b, 0, b.length)

  def ascii(text: String): Unit = put(text.getBytes(ISO_8859_1))

  /** Write a number in little-endian order. */
  def little(number: Long, width: Int): Unit = {
    room(width)
    var i = 0
    while (i < width) {
      at(size + i) = (number >> 8 * i).toByte
      i += 1
    }
    size += width
  }

  /** Bytes between quotes, in hex. */
  def hex(b: Array[Byte], from: Int, n: Int): Unit = {
    room(2 * n + 2)
    at(size) = '"'
    Bytes.writeHex(at, size + 1, b, from, n)
    at(size + 2 * n + 1) = '"'
    size += 2 * n + 2
  }

  /** Make room between what is written: what begins at `begin` begins `by` bytes further on. */
  def move(begin: Int, by: Int): Unit = {
    if (by > 0) room(by)
    System.arraycopy(at, begin, at, begin + by, size - begin)
    size += by
  }

  def bytes: Array[Byte] = java.util.Arrays.copyOf(at, size)
}
