// Answers JSON lines for a driver in JavaScript, as lines.py does for one in Python.
//
//     node lines.js DRIVER.js [ARGUMENT ...]
//
// DRIVER.js exports a function that makes an object of the arguments: its name, any of decode, encode,
// again, validate and answer, and refusals, the classes of errors by which the implementation refuses
// bytes. An error of a class that is called Unsupported says that there is no such function. Any other
// is an error of the implementation. Packages are looked for in the folder in which node was started.

"use strict";

const fs = require("fs");
const path = require("path");
const readline = require("readline");

class Unsupported extends Error {}

// Where an installed package is: a file of it can be required even where it does not export that.
function folder(name) {
  const places = [path.resolve("node_modules"), ...(process.env.NODE_PATH || "").split(path.delimiter)];
  const found = places.filter(Boolean).map((place) => path.join(place, name)).find(fs.existsSync);
  if (!found) throw new Error(`${name} is not installed: npm install ${name}`);
  return found;
}

// The version of an installed package.
const version = (name) => JSON.parse(fs.readFileSync(path.join(folder(name), "package.json"))).version;

function answer(driver, asked) {
  const kind = asked.do;
  if (kind === "name") return { name: driver.name };
  if (!driver[kind]) return { unsupported: `${driver.name} does not ${kind}` };
  if (asked.limits) return { unsupported: "the case sets limits, and the implementation has none" };
  const data = asked.data === undefined ? undefined : Buffer.from(asked.data, "hex");
  try {
    const made = driver[kind](asked.kind, kind === "encode" ? asked.typed : data, asked.given);
    const key = { decode: "typed", validate: "violations", answer: "answer" }[kind] || "data";
    return { [key]: key === "data" ? Buffer.from(made).toString("hex") : made };
  } catch (error) {
    const says = `${error && error.name}: ${error && error.message}`.slice(0, 500);
    // By its name: a driver elsewhere has a class of its own.
    if (error && error.constructor.name === "Unsupported") return { unsupported: error.message };
    if (!(driver.refusals || []).some((one) => error instanceof one)) return { error: says };
    const where = ["rule", "offset"].filter((key) => error[key] !== undefined);
    return { refused: says, ...Object.fromEntries(where.map((key) => [key, error[key]])) };
  }
}

// JSON has integers of any size, and JSON.stringify has not.
function json(made) {
  const text = JSON.stringify(made, (_, item) => (typeof item === "bigint" ? `\0${item}` : item));
  return text.replace(/"\\u0000(-?\d+)"/g, "$1");
}

module.exports = { Unsupported, folder, version };

if (require.main === module) {
  // What an implementation prints is not an answer.
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  const [file, ...settings] = process.argv.slice(2);
  const driver = require(path.resolve(file))(...settings);
  readline.createInterface({ input: process.stdin }).on("line", (line) => {
    write(`${json(answer(driver, JSON.parse(line)))}\n`);
  });
}
