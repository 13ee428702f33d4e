// Runs a WASI command in Node: node run-wasi.mjs FILE.wasm [ARGUMENT...]
//
// The command can open only the current directory, under its own name and as ".".

import { readFile } from "node:fs/promises";
import { argv, cwd, env, exit } from "node:process";
import { WASI } from "node:wasi";

const [file, ...args] = argv.slice(2);
if (file === undefined) {
  console.error("usage: run-wasi FILE.wasm [ARGUMENT...]");
  exit(2);
}
const wasi = new WASI({
  version: "preview1",
  args: [file, ...args],
  // A failed assertion aborts, and output that the test harness had captured would be lost.
  env: { RUST_TEST_NOCAPTURE: "1", ...env },
  preopens: { [cwd()]: cwd(), ".": cwd() },
  returnOnExit: true,
});
// The library imports Envoy's functions, which do not exist here: a test must not call them.
function hostless(module) {
  const missing = WebAssembly.Module.imports(module).filter((wanted) => wanted.module === "env");
  const refuse = (name) => () => {
    throw new Error(`${name} was called outside of Envoy`);
  };
  return Object.fromEntries(missing.map(({ name }) => [name, refuse(name)]));
}

try {
  const module = await WebAssembly.compile(await readFile(file));
  const instance = await WebAssembly.instantiate(module, { env: hostless(module), ...wasi.getImportObject() });
  // Other exports are left out: the library also exports the entry point of a filter, which a command must not have.
  const { memory, _start } = instance.exports;
  exit(wasi.start({ exports: { memory, _start } }));
} catch (trap) {
  // This includes failed assertions, whose message has already been printed.
  console.error(String(trap));
  exit(101);
}
