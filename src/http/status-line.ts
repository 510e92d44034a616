/** Status lines as uWebSockets.js wants them, made once. */

// An import would have Node load everything that the module names, its WebSocket client too: 100 ms.
const { STATUS_CODES } = process.getBuiltinModule('node:http')
const lines = new Map<number, string>()
for (const [code, text] of Object.entries(STATUS_CODES)) lines.set(Number(code), `${code} ${text}`)

export function statusLine(status: number): string {
  return lines.get(status) ?? `${status} Unknown`
}
