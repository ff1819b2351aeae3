// A driver to begin with: name the implementation, and hand its functions the bytes.
//
// Run it with: amqp10msg conformance run --peer ./this_file.js. What is missing is skipped.

"use strict";

// What is thrown where the implementation has no such function; it goes by the name.
class Unsupported extends Error {}

module.exports = () => ({
  name: "my implementation 1.0",

  // The errors by which it refuses bytes. Any other is an error of the implementation.
  refusals: [RangeError],

  // What the bytes say in typed JSON, or null where that cannot be shown. Where a type is not kept,
  // name its family: integer, number, octets, sequence, decimal; numeric where all are doubles.
  decode(kind, data) {
    if (kind !== "value") throw new Unsupported(`${kind} is not tried`);
    if (data.equals(Buffer.from([0x41]))) return ["boolean", true];
    throw new RangeError(data.length ? `constructor ${data[0]} is not known` : "no bytes");
  },

  // The bytes of typed JSON.
  encode(kind, typed) {
    if (typed[0] === "boolean" && typed[1] === true) return Buffer.from([0x41]);
    throw new Unsupported(`${kind} ${typed} is not written`);
  },
});
