/**
 * Finds the IP address of the client. It is the IP address of the connection or, behind a trusted proxy, the last IP
 * address in `X-Forwarded-For` that is not a trusted proxy. Entries further left were written by the client and prove
 * nothing.
 */

import { BlockList, isIP, isIPv6 } from 'node:net'

const MAPPED = '0000:0000:0000:0000:0000:ffff:'
const MAPPED_DOTTED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i

/** Returns the peer's address as text. An IPv4 address has its IPv4 form even on a dual-stack socket. */
export function ipText(raw: ArrayBuffer): string {
  const text = Buffer.from(raw).toString('latin1')
  if (!text.startsWith(MAPPED)) return text
  const hex = text.slice(MAPPED.length).replace(':', '')
  return [0, 2, 4, 6].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)).join('.')
}

/**
 * Returns a function that checks whether an IP address is trusted. `trusted` contains addresses and ranges: `10.0.0.1`,
 * `10.0.0.0/8`, `::1`.
 */
export function makeTrust(trusted: readonly string[]): (ip: string) => boolean {
  if (trusted.length === 0) return () => false
  const proxies = new BlockList()
  for (const entry of trusted) {
    const [address = '', bits] = entry.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (bits === undefined) proxies.addAddress(address, family)
    else proxies.addSubnet(address, Number(bits), family)
  }
  return (ip) => proxies.check(ip, isIPv6(ip) ? 'ipv6' : 'ipv4')
}

/**
 * Returns the client's IP address. `forwardedFor` is called only if the peer is trusted; it joins several header lines
 * to one list.
 */
type ClientIp = (peer: string, forwardedFor: () => string) => string

export function makeClientIp(trusted: readonly string[]): ClientIp {
  if (trusted.length === 0) return (peer) => peer
  const isTrusted = makeTrust(trusted)
  return (peer, forwardedFor) => {
    if (!isTrusted(peer)) return peer
    const hops = forwardedFor().split(',')
    let client = peer
    for (let at = hops.length - 1; at >= 0; at--) {
      const hop = (hops[at] ?? '').trim()
      if (isIP(hop) === 0) return client
      client = MAPPED_DOTTED.exec(hop)?.[1] ?? hop
      if (!isTrusted(client)) return client
    }
    return client
  }
}

const NETWORK = '::/64'

/**
 * Returns the range to which rate limits apply: an IPv4 address itself, or the /64 of an IPv6 address. If the input is
 * already a range, returns it unchanged.
 */
export function limitedRange(ip: string): string {
  if (!ip.includes(':') || ip.endsWith(NETWORK)) return ip
  const [head = '', tail] = ip.split('::')
  const groups = head === '' ? [] : head.split(':')
  if (tail !== undefined) {
    const after = tail === '' ? [] : tail.split(':')
    while (groups.length + after.length < 8) groups.push('0')
    groups.push(...after)
  }
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`
}

/**
 * Returns the /48 that contains an IPv6 range, because a provider may assign a whole /48 to one customer. Returns
 * undefined for IPv4.
 */
export function siteOf(range: string): string | undefined {
  if (!range.endsWith(NETWORK)) return undefined
  const groups = range.slice(0, -NETWORK.length)
  return `${groups.slice(0, groups.lastIndexOf(':'))}::/48`
}
