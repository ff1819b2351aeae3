// amqplib: properties of AMQP 0-9-1, and field tables, by the codec of the client for Node.

"use strict";

const { Unsupported, folder, version } = require("./lines.js");

const { decodeFields, encodeTable } = require(`${folder("amqplib")}/lib/codec.js`);
const { decode, encodeProperties, BasicProperties } = require(`${folder("amqplib")}/lib/defs.js`);

const NAMES = [
  ["content-type", "contentType"], ["content-encoding", "contentEncoding"], ["headers", "headers"],
  ["delivery-mode", "deliveryMode"], ["priority", "priority"],
  ["correlation-id", "correlationId"], ["reply-to", "replyTo"], ["expiration", "expiration"],
  ["message-id", "messageId"], ["timestamp", "timestamp"], ["type", "type"], ["user-id", "userId"],
  ["app-id", "appId"], ["cluster-id", "clusterId"],
];

// The bits of a double in hex: JSON cannot represent every double.
function bits(value) {
  const buffer = Buffer.alloc(8);
  buffer.writeDoubleBE(value);
  return buffer.toString("hex");
}

// A table field in typed JSON: its letter, or a family of letters if unknown, and the value.
function field(value) {
  if (value === null) return ["V"];
  if (typeof value === "boolean") return ["t", value];
  if (typeof value === "string") return ["S", value];
  // All numbers are doubles: a number without a fraction may have been an integer or a double.
  if (typeof value === "number") {
    return Number.isInteger(value) ? ["numeric", BigInt(value)] : ["number", bits(value)];
  }
  if (Buffer.isBuffer(value)) return ["octets", value.toString("hex")];
  if (Array.isArray(value)) return ["A", value.map(field)];
  if (value["!"] === "decimal") return ["D", [value.value.places, value.value.digits]];
  if (value["!"] === "timestamp") return ["T", BigInt(value.value)];
  return ["F", table(value)];
}

const table = (values) => Object.entries(values).map(([key, value]) => [key, field(value)]);

function decoded(kind, data) {
  if (kind === "basic-properties") return decode(BasicProperties, data);
  if (kind !== "field-table") throw new Unsupported(`amqplib has no ${kind}: it supports AMQP 0-9-1 only`);
  const end = 4 + data.readUInt32BE(0);
  if (end !== data.length) throw new RangeError("the table does not fill the bytes");
  return decodeFields(data.subarray(4, end));
}

module.exports = () => ({
  name: `amqplib ${version("amqplib")}`,
  refusals: [Error], // amqplib has no error class for invalid bytes

  decode(kind, data) {
    const made = decoded(kind, data);
    if (kind === "field-table") return ["F", table(made)];
    const found = NAMES.filter(([, name]) => made[name] !== undefined);
    const exact = (value) => (typeof value === "number" ? BigInt(value) : value);
    const typed = (name, value) => (name === "headers" ? table(value) : exact(value));
    return ["properties", found.map(([wire, name]) => [wire, typed(name, made[name])])];
  },

  // Decodes bytes and encodes the result.
  again(kind, data) {
    const made = decoded(kind, data);
    if (kind === "field-table") {
      const room = Buffer.alloc(4 * data.length + 1024);
      return room.subarray(0, encodeTable(room, made, 0));
    }
    // Cut the properties out of a frame: before the flags are 7 bytes of frame header, the class, the
    // weight and the size of the body; after them is the frame-end byte.
    const frame = encodeProperties(BasicProperties, 0, 0, made);
    return frame.subarray(7 + 12, frame.length - 1);
  },
});
