package amqp10msg.spark.jvm

import java.nio.charset.StandardCharsets.UTF_8

/** A section, as it is declared: its name, its column, and its form (``list``, ``map``, another). */
private[jvm] final class Section(val name: String, val column: String, val form: String)

/** A field of a composite, as it is declared: its type, or what it requires; its default or null. */
private[jvm] final class Field(
    val column: String,
    val kind: String,
    val default: java.lang.Long
)

/** How a field is read, and the places of its columns in a row (-1: none). */
private[jvm] final class FieldPlan(
    val way: Int,
    val small: Int,
    val place: Int,
    val second: Int,
    val default: java.lang.Long
)

/** An entry of a map section that is a column. */
private[jvm] final class Pick(val key: Array[Byte], val kind: String, val place: Int)

/** What is read of each message, in the form that is quick to follow. */
private[jvm] final class Plan(columns: Array[Column]) {
  val size: Int = columns.length
  private def place(name: String): Int =
    columns.indexWhere(c => c.section.isEmpty && c.source == name)

  val wire: Int = place(Column.WIRE)
  val format: Int = place("message_format")
  val hasProperties: Int = place("has_properties")
  val bodyKind: Int = place("body_kind")
  val bodySections: Int = place("body_sections")
  val body: Int = place("body")
  val bodyLengths: Int = place("body_lengths")
  val bodyJson: Int = place("body_json")
  val bodyText: Int = place("body_text")
  val bodyValue: Int = place("body_value")
  val offsets: Int = place("section_offsets")

  private def picksOf(section: Section): Array[Pick] =
    columns.zipWithIndex.collect {
      case (c, at) if c.section == section.column => new Pick(c.source.getBytes(UTF_8), c.sql, at)
    }
  val picks: Array[Array[Pick]] = Tables.SECTIONS.map(picksOf)

  /** Where the maps go, as maps or as VARIANT. */
  val maps: Array[Int] = new Array(Tables.SECTIONS.length)
  val variants: Array[Int] = new Array(Tables.SECTIONS.length)

  /** By section: the fields of composites; null for others. */
  val fields: Array[Array[FieldPlan]] = Tables.SECTIONS.zipWithIndex.map { case (_, index) =>
    val declared = Tables.FIELDS(index)
    if (declared == null) null else declared.map(planned)
  }

  /** By section: how it is read. */
  val ways: Array[Int] = new Array(Tables.SECTIONS.length)

  /** By section: whether the content of a body is read. */
  val needs: Array[Boolean] = new Array(Tables.SECTIONS.length)

  private val isBody =
    Seq(bodyKind, bodySections, body, bodyLengths, bodyJson, bodyText, bodyValue).exists(_ >= 0)

  for ((section, index) <- Tables.SECTIONS.zipWithIndex) {
    maps(index) = -1
    variants(index) = -1
    if (section.column == "body") {
      ways(index) = if (isBody) Plan.BODY else Plan.SKIPPED
      needs(index) = index match {
        case Tables.DATA => body >= 0 || bodyLengths >= 0 || bodyText >= 0
        case Tables.AMQP_VALUE => bodyJson >= 0 || bodyText >= 0 || bodyValue >= 0
        case _ => bodyJson >= 0 || bodyValue >= 0
      }
    } else if (fields(index) != null) {
      val wanted = fields(index).exists(f => f.place >= 0 || f.second >= 0)
      ways(index) = if (wanted) Plan.COMPOSITE else Plan.SKIPPED
    } else {
      val at = place(section.column)
      if (at >= 0 && columns(at).sql == Column.VARIANT) variants(index) = at
      else maps(index) = at
      ways(index) = if (at >= 0 || picks(index).nonEmpty) Plan.MAPPING else Plan.SKIPPED
    }
  }

  private def planned(field: Field): FieldPlan = {
    val second = Math.max(place(field.column + "_type"), place(field.column + "_ms"))
    val way = Plan.WAYS.indexOf(field.kind)
    val small = field.kind match {
      case "binary" => Codes.BINARY8
      case "symbol" => Codes.SYMBOL8
      case "string" | "address" | "message-id" => Codes.STRING8
      case _ => Plan.NO_CODE
    }
    new FieldPlan(way, small, place(field.column), second, field.default)
  }
}

private[jvm] object Plan {
  final val SKIPPED = 0
  final val COMPOSITE = 1
  final val MAPPING = 2
  final val BODY = 3

  /** Larger than all format codes, with what is added for 32-bit sizes. */
  final val NO_CODE = 0x1000

  /** How fields are read; their kinds in this order. */
  final val BOOLEAN = 0
  final val UBYTE = 1
  final val UINT = 2
  final val TIMESTAMP = 3
  final val MESSAGE_ID = 4
  val WAYS: Seq[String] = Seq("boolean", "ubyte", "uint", "timestamp", "message-id") ++
    Seq("binary", "string", "symbol", "address")
}
