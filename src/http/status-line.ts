/** Status lines in the form that uWebSockets.js expects, made once. */

// Node loads everything that an imported module exports, including its WebSocket client, which takes 100 ms. This call
// does not.
const { STATUS_CODES } = process.getBuiltinModule('node:http')
const lines = new Map<number, string>()
for (const [code, text] of Object.entries(STATUS_CODES)) lines.set(Number(code), `${code} ${text}`)

export function statusLine(status: number): string {
  return lines.get(status) ?? `${status} Unknown`
}
