/**
 * Compares the request rate of the front with that of bare uWebSockets.js. One server answers a GET of a small JSON
 * route through the front's whole route table: validated path and query, request id, metrics, security and CORS
 * headers. The other server is a bare handler that sends the same body. The same generator drives both in the same run.
 * The CPU time is that of each server's own process.
 */

import { type ChildProcess, fork } from 'node:child_process'
import { median, quick, type Round, report, runBench } from './bench.ts'
import type { ServerMessage } from './front-server.ts'
import { chooseGenerator, runLoad } from './http-generator.ts'

const CONNECTIONS = 64
const PATH = `/api/v1/orderbook/0x${'5a'.repeat(32)}?depth=20`

type Side = { readonly child: ChildProcess; readonly url: string; readonly cpuUs: number[] }

function received(child: ChildProcess): Promise<ServerMessage> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null): void =>
      reject(new Error(`the server ended with exit code ${code}`))
    child.once('exit', ended)
    child.once('message', (message) => {
      child.off('exit', ended)
      resolve(message as ServerMessage)
    })
  })
}

async function start(kind: 'table' | 'bare'): Promise<Side> {
  const child = fork(new URL('./front-server.ts', import.meta.url), [kind])
  const message = await received(child)
  if (!('port' in message))
    throw new Error('the first message of the server does not contain its port')
  return { child, url: `http://127.0.0.1:${message.port}${PATH}`, cpuUs: [] }
}

async function cpuMs(side: Side): Promise<number> {
  const answer = received(side.child)
  side.child.send('cpu')
  const message = await answer
  if (!('cpuMs' in message)) throw new Error('the server did not answer with its CPU time')
  return message.cpuMs
}

const generator = chooseGenerator()

async function measure(side: Side, round: Round): Promise<number> {
  const before = await cpuMs(side)
  const seconds = round.quick ? 1 : 3
  const result = await runLoad(generator, { url: side.url, connections: CONNECTIONS, seconds })
  const spent = (await cpuMs(side)) - before
  if (!round.warmup) side.cpuUs.push((spent * 1_000) / result.requests)
  return result.requestsPerSec
}

const [ours, theirs] = await Promise.all([start('table'), start('bare')])
try {
  const result = await runBench({
    bench: 'front',
    unit: 'requests/s',
    peer: 'a bare uWebSockets.js handler sending the same body',
    bar: 0.7,
    // Many short rounds, because their median is still right if other programs use the machine.
    rounds: quick ? 9 : 11,
    warmups: 2,
    ours: (round) => measure(ours, round),
    theirs: (round) => measure(theirs, round),
  })
  const [oursUs, theirsUs] = [median(ours.cpuUs), median(theirs.cpuUs)]
  process.stdout.write(
    `${generator}, ${CONNECTIONS} connections; server CPU per request: ` +
      `front ${oursUs.toFixed(2)} µs, bare ${theirsUs.toFixed(2)} µs\n`,
  )
  report(result)
} finally {
  ours.child.disconnect()
  theirs.child.disconnect()
}
