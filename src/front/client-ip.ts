/** The peer's address as text, with IPv4 written as IPv4 also on a dual-stack socket. */

const MAPPED = '0000:0000:0000:0000:0000:ffff:'

export function ipText(raw: ArrayBuffer): string {
  const text = Buffer.from(raw).toString('latin1')
  if (!text.startsWith(MAPPED)) return text
  const hex = text.slice(MAPPED.length).replace(':', '')
  return [0, 2, 4, 6].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)).join('.')
}
