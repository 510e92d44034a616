/**
 * Counts the connections to a port of this process, by IP range and by IPv6 /48. Reads them from the kernel's list of
 * TCP connections, which contains those of all threads. Only Linux has such a list, so other systems do not count
 * connections.
 */

import { readFile } from 'node:fs/promises'
import { ipText, limitedRange, siteOf } from './client-ip.ts'

const LISTS = ['/proc/self/net/tcp', '/proc/self/net/tcp6']
const ESTABLISHED = '01 '

export async function countPeers(port: number): Promise<Map<string, number> | undefined> {
  const lists = await Promise.all(
    LISTS.map((path) => readFile(path, 'latin1').catch(() => undefined)),
  )
  if (lists[0] === undefined && lists[1] === undefined) return undefined
  const byIp = new Map<string, number>()
  for (const list of lists) if (list !== undefined) countIn(list, port, byIp)
  const byRange = new Map<string, number>()
  for (const [raw, count] of byIp) {
    const range = limitedRange(addressOf(raw))
    const site = siteOf(range)
    byRange.set(range, (byRange.get(range) ?? 0) + count)
    if (site !== undefined) byRange.set(site, (byRange.get(site) ?? 0) + count)
  }
  return byRange
}

/**
 * Counts the connections in a list of the kernel. Each line begins with the line number, the local address, the peer's
 * address and the state: `0: 0100007F:1F90 … 01`.
 */
function countIn(list: string, port: number, byIp: Map<string, number>): void {
  const ours = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  for (const line of list.split('\n')) {
    const localAt = line.indexOf(': ') + 2
    const peerAt = line.indexOf(' ', localAt) + 1
    const stateAt = line.indexOf(' ', peerAt) + 1
    if (!line.startsWith(ESTABLISHED, stateAt)) continue
    if (line.slice(peerAt - 1 - ours.length, peerAt - 1) !== ours) continue
    const ip = line.slice(peerAt, line.indexOf(':', peerAt))
    byIp.set(ip, (byIp.get(ip) ?? 0) + 1)
  }
}

/** Converts an address from the kernel's list to text. The kernel writes the lowest byte of each 32-bit word first. */
function addressOf(raw: string): string {
  const words = raw.match(/.{8}/g) ?? []
  const bytes = Buffer.concat(words.map((word) => Buffer.from(word, 'hex').reverse()))
  if (bytes.length === 4) return bytes.join('.')
  const groups = bytes.toString('hex').match(/.{4}/g) ?? []
  return ipText(new Uint8Array(Buffer.from(groups.join(':'), 'latin1')).buffer)
}
