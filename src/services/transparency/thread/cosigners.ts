/**
 * Collects cosignatures of witnesses (C2SP tlog-witness). Each round submits the newest published checkpoints to all
 * witnesses concurrently, and stores the cosignatures that arrive within `ROUND_MS_MAX`. Checkpoints are published
 * without waiting for a round, and a witness that fails is left out for a while.
 */

import type { Query } from '#store/reads/queries.ts'
import type { CosignedCheckpoint, PublicTree } from '#store/writes/public-log.ts'
import { parseDecimal } from '#transparency/checkpoint.ts'
import { consistencyProof } from '#transparency/merkle-proof.ts'
import { subtreesOf } from '#transparency/tiles.ts'
import { HASH_BYTES } from '#transparency/tree-hash.ts'
import {
  addCheckpointBody,
  cosignatureLines,
  type PostToWitness,
  type WitnessAddress,
} from '#transparency/witness-request.ts'

/** Maximum time of a round; later answers are ignored. */
const ROUND_MS_MAX = 3_000
/** First and maximum time for which a failed witness is left out. Each further failure doubles the time. */
const PAUSE_MS = 1_000
const PAUSE_MS_MAX = 60_000
const CONFLICT = 409

export type CosignerEvent = { readonly witness: string; readonly why?: string }

type CosignerPorts = {
  readonly witnesses: readonly WitnessAddress[]
  readonly query: Query
  readonly post: PostToWitness
  store(checkpoints: readonly CosignedCheckpoint[]): Promise<unknown>
  nowMs(): number
  /** Called with the result of each request to a witness; `why` is set if the request failed. */
  said(event: CosignerEvent): void
}

type Cosigner = WitnessAddress & {
  /** For each partition: size of the log at the newest checkpoint that the witness has cosigned. */
  readonly sizes: Map<number, number>
  failures: number
  askAtMs: number
}

export function makeCosigners(ports: CosignerPorts) {
  const cosigners: Cosigner[] = ports.witnesses.map((witness) => ({
    ...{ ...witness, sizes: new Map(), failures: 0, askAtMs: 0 },
  }))

  /** Returns the cosignatures that a witness gave within the round, by partition. */
  async function linesOf(
    cosigner: Cosigner,
    trees: readonly PublicTree[],
    signal: AbortSignal,
  ): Promise<Map<number, string>> {
    const lines = new Map<number, string>()
    const witness = cosigner.key.name
    try {
      for (const tree of trees) {
        const { partition, publishedSize } = tree
        if (cosigner.sizes.get(partition) === publishedSize) continue
        lines.set(partition, await submit(ports, cosigner, tree, signal))
        cosigner.sizes.set(partition, publishedSize)
        ports.said({ witness })
      }
      cosigner.failures = 0
    } catch (error) {
      const pause = Math.min(PAUSE_MS_MAX, PAUSE_MS * 2 ** cosigner.failures)
      cosigner.failures++
      cosigner.askAtMs = ports.nowMs() + pause
      // Forget which log sizes this witness has cosigned, because they may have changed at the witness. The first round
      // after the pause then submits every checkpoint to this witness again.
      cosigner.sizes.clear()
      ports.said({ witness, why: error instanceof Error ? error.message : String(error) })
    }
    return lines
  }

  return {
    /**
     * Submits new checkpoints to all witnesses that are not left out, for at most `ROUND_MS_MAX`, then stores their
     * cosignatures.
     */
    async round(): Promise<void> {
      const due = cosigners.filter(({ askAtMs }) => askAtMs <= ports.nowMs())
      if (due.length === 0) return
      const trees = await ports.query('publicTrees', {})
      const published = trees.filter(({ checkpoint }) => checkpoint !== '')
      const signal = AbortSignal.timeout(ROUND_MS_MAX)
      const answers = await Promise.all(due.map((each) => linesOf(each, published, signal)))
      const cosigned = published.flatMap((tree): CosignedCheckpoint[] => {
        const { partition, publishedSize: size, checkpoint } = tree
        const lines = answers.map((each) => each.get(partition) ?? '').join('')
        return lines === '' ? [] : [{ partition, size, checkpoint, lines }]
      })
      if (cosigned.length > 0) await ports.store(cosigned)
    },
  }
}

/**
 * Submits a checkpoint and returns the signature lines. If the witness answers that it has cosigned another size,
 * submits the checkpoint again with a proof from that size.
 */
async function submit(
  { query, post }: CosignerPorts,
  { key, url, sizes }: Cosigner,
  { partition, publishedSize: size, checkpoint }: PublicTree,
  signal: AbortSignal,
): Promise<string> {
  let oldSize = sizes.get(partition) ?? 0
  for (let attempt = 0; attempt < 2; attempt++) {
    const proof = oldSize === 0 ? [] : await proofBetween(query, partition, oldSize, size)
    const { status, text } = await post(
      `${url}/add-checkpoint`,
      addCheckpointBody(oldSize, proof, checkpoint),
      signal,
    )
    if (status === CONFLICT) {
      const known = parseDecimal(text.trim())
      if (known === undefined || known === oldSize) throw new Error(`409: ${text.slice(0, 200)}`)
      if (known > size)
        throw new Error(`the witness has cosigned ${known} entries, but this log has only ${size}`)
      oldSize = known
      continue
    }
    if (status !== 200) throw new Error(`${status}: ${text.slice(0, 200)}`)
    const lines = cosignatureLines(checkpoint, text, key)
    if (lines === undefined)
      throw new Error('the answer is not a cosignature by the key of the witness')
    return lines
  }
  throw new Error(
    'the witness rejected two requests: the number of cosigned entries in each request differed from ' +
      'the number that the witness has',
  )
}

async function proofBetween(
  query: Query,
  partition: number,
  oldSize: number,
  size: number,
): Promise<Uint8Array[]> {
  const subtrees = subtreesOf(size, async ({ level, index, width }) => {
    const [tile] = await query('publicTiles', { partition, places: [{ level, index }] })
    return tile?.hashes.subarray(0, width * HASH_BYTES) ?? new Uint8Array(0)
  })
  return consistencyProof(oldSize, size, subtrees)
}
