/**
 * Entry bundles of C2SP tlog-tiles. A bundle has up to 256 entries, each preceded by its length as a big-endian 16-bit
 * number.
 */

const ENTRY_BYTES_MAX = 65_535

export function encodeBundle(entries: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(entries.reduce((sum, { length }) => sum + 2 + length, 0))
  const view = new DataView(bytes.buffer)
  let at = 0
  for (const entry of entries) {
    if (entry.length > ENTRY_BYTES_MAX)
      throw new RangeError(
        `an entry must have at most ${ENTRY_BYTES_MAX} bytes, not ${entry.length}`,
      )
    view.setUint16(at, entry.length)
    bytes.set(entry, at + 2)
    at += 2 + entry.length
  }
  return bytes
}

/** Returns the entries of a bundle; undefined if the bundle does not contain exactly `width` entries. */
export function decodeBundle(bundle: Uint8Array, width: number): Uint8Array[] | undefined {
  const view = new DataView(bundle.buffer, bundle.byteOffset, bundle.byteLength)
  const entries: Uint8Array[] = []
  let at = 0
  while (at < bundle.length) {
    if (at + 2 > bundle.length) return undefined
    const end = at + 2 + view.getUint16(at)
    if (end > bundle.length) return undefined
    entries.push(bundle.subarray(at + 2, end))
    at = end
  }
  return entries.length === width ? entries : undefined
}
