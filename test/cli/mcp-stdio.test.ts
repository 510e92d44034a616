/** Tests `sibyl mcp` over streams that replace standard input and output. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { loadSdk } from '#cli/mcp/sdk.ts'
import { makeMcpServer } from '#cli/mcp/server.ts'
import { makeStdioTransport } from '#cli/mcp/stdio.ts'

type Answer = {
  readonly id: number | null
  readonly error?: { readonly code: number }
  readonly result?: { readonly content: readonly { readonly text: string }[] }
}

/** Starts a server whose only tool answers when `finish` is called. */
async function startServer(lastCallsMsMax?: number) {
  const sdk = await loadSdk()
  const [input, output] = [new PassThrough(), new PassThrough()]
  let finish = (): void => {}
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  let called = (): void => {}
  const calls = new Promise<void>((resolve) => {
    called = resolve
  })
  const server = makeMcpServer({
    ...{ sdk, tools: [], instructions: '', version: '1' },
    async call(name) {
      called()
      await finished
      return { content: [{ type: 'text', text: `${name} is done` }] }
    },
  })
  const closed = new Promise<void>((resolve) => {
    server.onclose = resolve
  })
  const streams = { input, output, ...(lastCallsMsMax === undefined ? {} : { lastCallsMsMax }) }
  await server.connect(makeStdioTransport(sdk, streams))
  const lines = createInterface({ input: output })[Symbol.asyncIterator]()
  /** Returns the next answer. */
  const next = async () => JSON.parse((await lines.next()).value as string) as Answer
  return { input, finish, closed, called: calls, next, close: () => server.close() }
}

const message = (id: number, method: string, params: object = {}) =>
  `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`
const CALL = { name: 'slow', arguments: {} }

test('the MCP server answers a line that is not JSON-RPC with an error, and reads the next line', async () => {
  const { input, next, close } = await startServer()
  const long = message(1, 'ping', { text: 'x'.repeat(1_048_576) })
  const flawed: [line: string, code: number, id: number | null][] = [
    [long, -32_600, null],
    ['{"jsonrpc"\n', -32_700, null],
    ['[]\n', -32_600, null],
    ['null\n', -32_600, null],
    ['{"jsonrpc":"2.0","id":7,"method":5}\n', -32_600, 7],
  ]
  for (const [line, code, id] of flawed) {
    for (let at = 0; at < line.length; at += 65_536) input.write(line.slice(at, at + 65_536))
    // Sends an empty line, which gets no answer, and then a valid request.
    input.write(`\n${message(2, 'ping')}`)
    const [refused, answered] = [await next(), await next()]
    assert.deepEqual([refused.id, refused.error?.code], [id, code], line.slice(0, 40))
    assert.deepEqual([answered.id, answered.error], [2, undefined])
  }
  await close()
})

test('the MCP server reads a line of the maximum length that arrives in many pieces', async () => {
  const { input, next, close } = await startServer()
  const padding = 'é'.repeat((1_048_576 - message(3, 'ping', { text: '' }).length) / 2)
  const line = Buffer.from(message(3, 'ping', { text: padding }))
  for (let at = 0; at < line.length; at += 4_097) input.write(line.subarray(at, at + 4_097))
  assert.deepEqual(await next(), { jsonrpc: '2.0', id: 3, result: {} })
  await close()
})

test('at the end of its input, the MCP server answers calls in progress before it exits', async () => {
  const { input, finish, called, closed, next } = await startServer()
  input.end(message(1, 'tools/call', CALL))
  await called
  let isClosed = false
  void closed.then(() => {
    isClosed = true
  })
  await once(input, 'close')
  assert.ok(!isClosed)
  finish()
  assert.equal((await next()).result?.content[0]?.text, 'slow is done')
  await closed
})

test('at the end of its input, the MCP server exits if no call is in progress', async () => {
  const { input, called, closed } = await startServer()
  input.write(message(1, 'tools/call', CALL))
  await called
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
  input.end(`${JSON.stringify(cancel)}\n`)
  await closed
})

test('a call that never finishes delays the exit of the MCP server only for a limited time', async () => {
  const { input, closed } = await startServer(1)
  input.end(message(1, 'tools/call', CALL))
  await closed
})
