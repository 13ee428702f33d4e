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
  // A failed assertion aborts the process, and output that the test harness had captured would be lost.
  env: { RUST_TEST_NOCAPTURE: "1", ...env },
  preopens: { [cwd()]: cwd(), ".": cwd() },
  returnOnExit: true,
});
// The library imports Envoy's functions, which do not exist here. A test that calls one is wrong.
function hostless(module) {
  const missing = WebAssembly.Module.imports(module).filter((wanted) => wanted.module === "env");
  const refuse = (name) => () => {
    throw new Error(`${name} was called, and there is no Envoy`);
  };
  return Object.fromEntries(missing.map(({ name }) => [name, refuse(name)]));
}

try {
  const module = await WebAssembly.compile(await readFile(file));
  // Node 18 has no getImportObject.
  const imports = { env: hostless(module), wasi_snapshot_preview1: wasi.wasiImport };
  const instance = await WebAssembly.instantiate(module, imports);
  // Only these exports are passed on, since the library also exports the entry point of a filter.
  const { memory, _start } = instance.exports;
  exit(wasi.start({ exports: { memory, _start } }));
} catch (trap) {
  // A failed assertion ends here, too. Its message has been printed by then.
  console.error(String(trap));
  exit(101);
}
