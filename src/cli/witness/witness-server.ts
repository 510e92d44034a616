/**
 * Serves a witness over HTTP. Exchanges can submit their checkpoints to this server. `feedWitness` is for exchanges
 * that submit nothing: it reads the newest checkpoint of an exchange's log and submits it to the witness.
 */

import { createServer, type IncomingMessage, type Server } from 'node:http'
import { proveConsistency, readCheckpoint } from '#transparency/remote-log.ts'
import { addCheckpoint, cosignedBefore, type Witness } from '#transparency/witness.ts'
import { addCheckpointBody } from '#transparency/witness-request.ts'
import type { NamedLog } from '../public-logs.ts'
import { originHash } from './witness-folder.ts'

const PLAIN = 'text/plain; charset=utf-8'
const BODY_BYTES_MAX = 100_000
const REQUEST_MS_MAX = 10_000
const CONNECTIONS_MAX = 100

export function serveWitness(witness: Witness): Server {
  const server = createServer((request, response) => {
    const answer = (status: number, body: string, type = PLAIN): void => {
      response.writeHead(status, { 'content-type': type }).end(body)
    }
    const [, hash] = /^\/([0-9a-f]{64})\/checkpoint$/.exec(request.url ?? '') ?? []
    if (request.method === 'GET' && hash !== undefined) {
      const origin = [...witness.logs.keys()].find((each) => originHash(each) === hash)
      const checkpoint = origin === undefined ? undefined : witness.state.read(origin)
      if (checkpoint === undefined)
        answer(404, 'this witness has cosigned no checkpoint of this log\n')
      else answer(200, checkpoint)
      return
    }
    if (request.method !== 'POST' || request.url !== '/add-checkpoint') {
      answer(
        404,
        'a witness accepts only POST /add-checkpoint and GET /<hash of a log>/checkpoint\n',
      )
      return
    }
    readBody(request).then(
      (text) => {
        if (text === undefined) answer(413, `the body has more than ${BODY_BYTES_MAX} bytes\n`)
        else {
          const { status, body, type } = answerOf(witness, text)
          answer(status, body, type)
        }
      },
      () => response.destroy(),
    )
  })
  server.requestTimeout = REQUEST_MS_MAX
  server.maxConnections = CONNECTIONS_MAX
  return server
}

/**
 * Adds a checkpoint; answers 500 if the witness cannot read or write its folder. In that case nothing is cosigned, and
 * the client may retry.
 */
function answerOf(witness: Witness, text: string): ReturnType<typeof addCheckpoint> {
  try {
    return addCheckpoint(witness, text)
  } catch {
    return { status: 500, body: 'the witness cannot read or write its state\n', type: PLAIN }
  }
}

async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes > BODY_BYTES_MAX) return undefined
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

/**
 * Lets the witness cosign the newest checkpoint of a log; returns the size of the newest cosigned tree.
 * Throws if the trees are inconsistent or the witness rejects the checkpoint.
 */
export async function feedWitness(witness: Witness, log: NamedLog): Promise<number> {
  const newest = await readCheckpoint(log)
  const known = cosignedBefore(witness.state, log.origin)
  const oldSize = known?.head.size ?? 0
  const { size } = newest.head
  // While a log is being rebuilt, its newest tree may be smaller than the cosigned tree. In this case, only check that
  // the smaller tree is a prefix of the cosigned tree.
  if (known !== undefined && oldSize > size) {
    await proveConsistency(log, newest, known)
    return oldSize
  }
  const proof = known === undefined ? [] : await proveConsistency(log, known, newest)
  // If another checkpoint was cosigned while the proof was being read, start again from that checkpoint.
  if ((cosignedBefore(witness.state, log.origin)?.head.size ?? 0) !== oldSize) {
    return feedWitness(witness, log)
  }
  const { status, body } = addCheckpoint(witness, addCheckpointBody(oldSize, proof, newest.text))
  if (status !== 200)
    throw new Error(
      `${log.origin}: the witness refuses the checkpoint of ${size} entries: ${body.trim()}`,
    )
  return size
}
