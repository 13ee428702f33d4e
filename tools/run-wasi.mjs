// Runs a WASI command in Node: node run-wasi.mjs FILE.wasm [ARGUMENT...]
//
// The current directory is the only one that the command can open, under its own name and as ".".

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
  // A failed assertion aborts, and what the test harness had captured until then would be lost with it.
  env: { RUST_TEST_NOCAPTURE: "1", ...env },
  preopens: { [cwd()]: cwd(), ".": cwd() },
  returnOnExit: true,
});
// The library names Envoy's functions, which there are none of here: calling one is a mistake in a test.
function hostless(module) {
  const missing = WebAssembly.Module.imports(module).filter((wanted) => wanted.module === "env");
  const refuse = (name) => () => {
    throw new Error(`${name} was called, and there is no Envoy`);
  };
  return Object.fromEntries(missing.map(({ name }) => [name, refuse(name)]));
}

try {
  const module = await WebAssembly.compile(await readFile(file));
  const instance = await WebAssembly.instantiate(module, { env: hostless(module), ...wasi.getImportObject() });
  // Of the exports only these: the library also brings the entry point of a filter, which is none of a command.
  const { memory, _start } = instance.exports;
  exit(wasi.start({ exports: { memory, _start } }));
} catch (trap) {
  // Also a failed assertion, whose message has been printed by then.
  console.error(String(trap));
  exit(101);
}
