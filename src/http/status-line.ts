/** Status lines in the form that uWebSockets.js expects, made once. */

// An `import` of `node:http` would load everything that the module exports, including Node's WebSocket client, which
// takes 100 ms. `getBuiltinModule` does not.
const { STATUS_CODES } = process.getBuiltinModule('node:http')
const lines = new Map<number, string>()
for (const [code, text] of Object.entries(STATUS_CODES)) lines.set(Number(code), `${code} ${text}`)

export function statusLine(status: number): string {
  return lines.get(status) ?? `${status} Unknown`
}
