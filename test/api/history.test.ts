import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type PastBookRead, pastBook } from '#api/markets/history.ts'
import type { MarketId } from '#domain/ids.ts'
import { HISTORY_PER_ADDRESS_MAX, HISTORY_WAITING_MAX } from '#domain/limits.ts'
import type { MarketBoard } from '#live/market-board.ts'

test('one IP address or one IPv6 /48 network cannot fill the queue of requests for past order books', async () => {
  const answers: (() => void)[] = []
  const history = {
    pastBook: () =>
      new Promise<PastBookRead>((resolve) => {
        answers.push(() => resolve({ state: 'unknown' }))
      }),
    archivePart: () => Promise.resolve({ state: 'empty' } as const),
  }
  const board = { markets: new Map() } as unknown as MarketBoard
  const marketId = `0x${'a'.repeat(64)}` as MarketId
  const ask = (ip: string) =>
    pastBook({ history, board, ip }, { marketId, until: { seq: 1 } }).then((answer) =>
      'rejected' in answer ? answer.rejected : undefined,
    )
  const asked = Array.from({ length: 5 }, () => ask('192.0.2.1'))
  assert.equal(await asked.at(-1), 'RATE_LIMITED')
  assert.equal(answers.length, HISTORY_PER_ADDRESS_MAX)
  const more = Array.from({ length: HISTORY_WAITING_MAX }, (_, at) => ask(`2001:db8:1:${at}::1`))
  assert.equal(await more.at(-1), 'RATE_LIMITED')
  const others = ['192.0.2.2', '2001:db8:2::1'].map(ask)
  assert.ok(answers.length < HISTORY_WAITING_MAX)
  for (const answer of answers) answer()
  assert.deepEqual(await Promise.all(others), ['MARKET_NOT_FOUND', 'MARKET_NOT_FOUND'])
  await Promise.all([...asked, ...more])
  const later = ask('192.0.2.1')
  answers.at(-1)?.()
  assert.equal(await later, 'MARKET_NOT_FOUND', 'requests that are over leave their places')
})
