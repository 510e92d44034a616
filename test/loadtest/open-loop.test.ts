import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { type Answer, openDriver, writeRequest } from '../../loadtest/http-driver.ts'
import { eventually } from '../support/eventually.ts'

type Handler = (answer: () => void, response: ServerResponse) => void

async function serverOf(t: TestContext, handle: Handler): Promise<{ server: Server; url: string }> {
  const server = createServer((request, response) => {
    request.resume()
    handle(() => response.end('{}'), response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

const REQUEST = writeRequest('GET', '/', '')

test('the load tester measures each latency from the planned send time, so a server stall is visible', async (t) => {
  const STALL_MS = 400
  const held: (() => void)[] = []
  let stalled = true
  const { url } = await serverOf(t, (answer) => {
    if (!stalled) return answer()
    if (held.push(answer) > 1) return
    // The stall begins when the first request arrives, and lasts `STALL_MS`.
    setTimeout(() => {
      stalled = false
      for (const each of held) each()
    }, STALL_MS)
  })
  // Two connections: only two requests ever reach the server while it stalls.
  const driver = await openDriver(url, 2)
  t.after(() => driver.close())
  const latencies: number[] = []
  const requests = new Array<Buffer>(200).fill(REQUEST)
  await driver.openLoop(requests, 500, ({ latencyMs }) => latencies.push(latencyMs))
  assert.equal(latencies.length, 200)
  assert.equal(held.length, 2)
  // All 200 requests were due within 400 ms. If latency were measured from the time of sending, all but two would look
  // fast.
  const slow = latencies.filter((latencyMs) => latencyMs > STALL_MS / 2 - 10).length
  assert(slow >= 95, `${slow} of 200 were seen to be slow`)
})

test('the load tester reports a lost answer, reopens the connection and continues the run', async (t) => {
  let seen = 0
  const { url } = await serverOf(t, (answer, response) => {
    if (++seen === 3) response.socket?.destroy()
    else answer()
  })
  const driver = await openDriver(url, 1)
  t.after(() => driver.close())
  const answers: Answer[] = []
  for (let at = 0; at < 6; at++) {
    driver.send(REQUEST, performance.now(), (answer) => answers.push(answer))
  }
  await eventually(() => assert.equal(answers.length, 6))
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 0, 200, 200, 200],
  )
  assert.equal(driver.unanswered, 0)
  assert.equal(driver.connected, 1)
})

test('a connection that was idle for too long is reopened before its next request', async (t) => {
  const sockets = new Set<unknown>()
  const { url } = await serverOf(t, (answer, response) => {
    sockets.add(response.socket)
    answer()
  })
  const ask = async (idleMsMax?: number): Promise<number> => {
    sockets.clear()
    const driver = await openDriver(url, 1, idleMsMax)
    for (let at = 0; at < 3; at++) {
      await driver.closedLoop([REQUEST], ({ status }) => assert.equal(status, 200))
    }
    driver.close()
    return sockets.size
  }
  assert.equal(await ask(), 1)
  assert.equal(await ask(0), 3)
})

test('the load tester reports an unreachable exchange at once', async () => {
  await assert.rejects(openDriver('http://127.0.0.1:1', 2), /ECONNREFUSED/)
})
