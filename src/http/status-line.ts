/** Status lines as uWebSockets.js wants them, made once. */

import { STATUS_CODES } from 'node:http'

const lines = new Map<number, string>()
for (const [code, text] of Object.entries(STATUS_CODES)) lines.set(Number(code), `${code} ${text}`)

export function statusLine(status: number): string {
  return lines.get(status) ?? `${status} Unknown`
}
