import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { isRejection } from '#domain/rejection.ts'
import { eventually } from '../support/eventually.ts'
import { assertOpen, expectedFrom } from './agreement.ts'
import { openMarkets, openOrders, withExchanges } from './exchange-fixture.ts'
import { orderStream } from './order-stream.ts'

test('an append that fails is unknown, and the thread goes on when it can', () =>
  withExchanges(async (start, dataDir) => {
    const exchange = await start({
      store: false,
      env: { SIBYL_LOG_PARTITIONS: '1', SIBYL_HEALTH_INTERVAL_MS: '60000' },
    })
    const stream = orderStream(7, 2)
    await openMarkets(exchange, stream)
    await exchange.askAll(stream.take(50))
    // Somebody else holds the file for writing: the append fails, and so may opening it again.
    const intruder = new Database(join(dataDir, 'log', 'partition-0.db'))
    intruder.exec('BEGIN IMMEDIATE')
    const asks = stream.take(30)
    const unknown = await exchange.askAll(asks)
    assert(unknown.every((answer) => isRejection(answer) && answer.rejected === 'OUTCOME_UNKNOWN'))
    intruder.exec('ROLLBACK')
    intruder.close()
    const again = await eventually(async () => {
      const answers = await exchange.askAll(asks)
      assert(answers.every((answer) => !isRejection(answer) || answer.rejected !== 'OVERLOADED'))
      return answers
    }, 60_000)
    for (const [index, { ask }] of asks.entries()) {
      if (ask[0] === 'PlaceOrder')
        assert('status' in (again[index] as object), String(again[index]))
    }
    const reloads = exchange.heard.get('relay-0')!.filter((line) => 'reloaded' in line)
    assert(reloads.length >= 1, 'the readers are told')
    assertOpen(expectedFrom(dataDir), await openOrders(exchange))
  }))
