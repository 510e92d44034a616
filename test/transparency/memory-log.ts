/** A public log in memory. It is served like a real log, but tests can change single bytes of its files. */

import { randomBytes } from 'node:crypto'
import { checkpointText, type TreeHead } from '#transparency/checkpoint.ts'
import { encodeBundle } from '#transparency/entry-bundle.ts'
import { keyPairOf, makeNoteSigner } from '#transparency/node-signer.ts'
import { COSIGNATURE, type NoteSigner, signatureLine } from '#transparency/note.ts'
import type { RemoteLog } from '#transparency/remote-log.ts'
import { parseTilePath, TILE_WIDTH, tileWidth } from '#transparency/tiles.ts'
import { TreeBuilder } from '#transparency/tree-builder.ts'
import { HASH_BYTES, treeHasher } from '#transparency/tree-hash.ts'

export function signCheckpoint(head: TreeHead, { key, sign }: NoteSigner): string {
  const text = checkpointText(head)
  return `${text}\n${signatureLine(key, sign(Buffer.from(text)))}`
}

const newSeed = (): string => `0x${randomBytes(32).toString('hex')}`

export function newWitnessSigner(name = 'witness.example/w1') {
  return makeNoteSigner(keyPairOf(newSeed()), name, COSIGNATURE)
}

/** Makes a log; `change` may alter each file, named by its path, before it is served. */
export function makeMemoryLog(
  origin = 'example.com/log/1/p0',
  change: (path: string, bytes: Uint8Array) => Uint8Array = (_path, bytes) => bytes,
  signer = makeNoteSigner(keyPairOf(newSeed()), origin),
) {
  const builder = new TreeBuilder(treeHasher)
  const entries: Uint8Array[] = []
  const tiles = new Map<string, Uint8Array>()
  let checkpoint = ''

  function fileAt(path: string): Uint8Array | undefined {
    if (path === 'checkpoint') return Buffer.from(checkpoint)
    const place = parseTilePath(path)
    if (place === undefined || place.width > tileWidth(entries.length, place)) return undefined
    const { level, index, width } = place
    const from = index * TILE_WIDTH
    if (level === 'entries') return encodeBundle(entries.slice(from, from + width))
    return tiles.get(`${level}/${index}`)?.slice(0, width * HASH_BYTES)
  }

  const remote: RemoteLog = {
    key: signer.key,
    async get(path) {
      const bytes = fileAt(path)
      return bytes === undefined ? undefined : change(path, Uint8Array.from(bytes))
    },
  }
  return {
    ...{ remote, entries, signer },
    grow(...more: (string | Uint8Array)[]): void {
      for (const entry of more) {
        const bytes = Buffer.from(entry)
        entries.push(bytes)
        builder.append(treeHasher.leaf(bytes))
      }
      for (const { level, index, hashes } of builder.takeChanged()) {
        tiles.set(`${level}/${index}`, hashes)
      }
      checkpoint = signCheckpoint({ origin, size: entries.length, root: builder.root() }, signer)
    },
    checkpoint: () => checkpoint,
  }
}
