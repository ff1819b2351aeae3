// rhea: the codec of the AMQP 1.0 client for Node.

"use strict";

const { Unsupported, folder, version } = require("./lines.js");

const rhea = require(folder("rhea"));
const { Reader, Writer, by_code: TYPES } = rhea.types;

const NAMES = {
  0x40: "null", 0x56: "boolean", 0x41: "boolean", 0x42: "boolean", 0x50: "ubyte", 0x60: "ushort",
  0x70: "uint", 0x52: "uint", 0x43: "uint", 0x80: "ulong", 0x53: "ulong", 0x44: "ulong",
  0x51: "byte", 0x61: "short", 0x71: "int", 0x54: "int", 0x81: "long", 0x55: "long",
  0x72: "float", 0x82: "double", 0x74: "decimal32", 0x84: "decimal64", 0x94: "decimal128",
  0x73: "char", 0x83: "timestamp", 0x98: "uuid", 0xa0: "binary", 0xb0: "binary", 0xa1: "string",
  0xb1: "string", 0xa3: "symbol", 0xb3: "symbol", 0x45: "list", 0xc0: "list", 0xd0: "list",
  0xc1: "map", 0xd1: "map", 0xe0: "array", 0xf0: "array",
};
const SECTIONS = {};
[
  ["header", "list"], ["delivery-annotations", "map"], ["message-annotations", "map"],
  ["properties", "list"], ["application-properties", "map"], ["data", "binary"],
  ["amqp-sequence", "list"], ["amqp-value", "*"], ["footer", "map"],
].forEach(([name, source], i) => {
  SECTIONS[`ulong ${0x70 + i}`] = SECTIONS[`symbol amqp:${name}:${source}`] = [name, source];
});

function bits(write, width, value) {
  const buffer = Buffer.alloc(width);
  buffer[write](value);
  return buffer.toString("hex");
}

function scalar(name, value) {
  switch (name) {
    case "boolean":
      return Boolean(value);
    case "float":
      return bits("writeFloatBE", 4, value);
    case "double":
      return bits("writeDoubleBE", 8, value);
    case "ulong":
      return Buffer.isBuffer(value) ? value.readBigUInt64BE() : value;
    case "long":
      return Buffer.isBuffer(value) ? value.readBigInt64BE() : value;
    case "timestamp":
      return value.getTime();
    default:
      return Buffer.isBuffer(value) ? value.toString("hex") : value;
  }
}

// Returns a value of rhea in typed JSON. rhea stores a descriptor in the value that it describes.
function typed(read) {
  const { descriptor, type, value } = read;
  if (descriptor !== undefined) {
    delete read.descriptor;
    return ["described", typed(descriptor), typed(read)];
  }
  const name = NAMES[type.typecode];
  if (name === "null") return [name];
  if (name === "list") return [name, value.map(typed)];
  if (name === "map") {
    const pairs = [];
    for (let i = 0; i < value.length; i += 2) pairs.push(value.slice(i, i + 2).map(typed));
    return [name, pairs];
  }
  if (name === "array") {
    const { typecode, descriptor: shared } = read.array_constructor;
    const code = typecode.toString(16).padStart(2, "0");
    return [name, code, value.map(typed), ...(shared ? [[typed(shared)]] : [])];
  }
  return [name, scalar(name, value)];
}

// Reads a value with all its descriptors: Reader.read keeps only one of several.
function readTyped(reader) {
  const { typecode, descriptor, descriptors } = reader.read_constructor();
  if (!TYPES[typecode]) throw new Error(`unknown typecode 0x${typecode.toString(16)}`);
  const read = typed(reader.read_value(TYPES[typecode]));
  const around = descriptors || (descriptor ? [descriptor] : []);
  return around.reduceRight((inner, outer) => ["described", typed(outer), inner], read);
}

function value(data) {
  const reader = new Reader(data);
  const read = readTyped(reader);
  if (reader.remaining() > 0) throw new Error(`${reader.remaining()} octets follow the value`);
  return read;
}

function message(data) {
  rhea.message.decode(data);
  const reader = new Reader(data);
  const sections = [];
  while (reader.remaining() > 0) {
    const read = readTyped(reader);
    const [name, source] = (read[0] === "described" && SECTIONS[read[1].join(" ")]) || [];
    const content = name && read[2];
    if (!name) sections.push(["unknown", read]);
    else sections.push([name, content[0] === source ? content[1] : content]);
  }
  return sections;
}

// Kinds of cases that Reader and Writer support; composites are described lists to them.
const VALUES = ["value", "composite"];

module.exports = () => ({
  name: `rhea ${version("rhea")}`,
  refusals: [Error], // rhea has no error class for invalid bytes

  decode(kind, data) {
    if (kind === "message") return message(data);
    if (VALUES.includes(kind)) return value(data);
    throw new Unsupported(`${kind} is not supported by this driver`);
  },

  // Decodes bytes and encodes the result.
  again(kind, data) {
    if (kind === "message") return rhea.message.encode(rhea.message.decode(data));
    if (!VALUES.includes(kind)) throw new Unsupported(`${kind} is not supported by this driver`);
    const writer = new Writer();
    writer.write(new Reader(data).read());
    return writer.toBuffer();
  },
});
