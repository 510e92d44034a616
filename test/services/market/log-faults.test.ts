import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import Database from 'better-sqlite3'
import type { VerifiedOrder } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { eventually } from '../../support/eventually.ts'
import { assertOpen, expectedFrom } from './agreement.ts'
import { openMarkets, openOrders, withExchanges } from './exchange-fixture.ts'
import { orderStream } from './order-stream.ts'

// The tests run concurrently: most of the time, they wait for a file that another connection has locked.
suite('a market thread recovers after its log could not be written', { concurrency: true }, () => {
  test('after a failed append to the log, orders get the answer OUTCOME_UNKNOWN until the log can be written again', () =>
    withExchanges(async (start, dataDir) => {
      const exchange = await start({
        store: false,
        env: { SIBYL_LOG_PARTITIONS: '1' },
      })
      const stream = orderStream(7, 2)
      await openMarkets(exchange, stream)
      await exchange.askAll(stream.take(50))
      // Another connection locks the file for writing: the append fails, and opening the file again may fail, too.
      const intruder = new Database(join(dataDir, 'log', 'partition-0.db'))
      intruder.exec('BEGIN IMMEDIATE')
      const asks = stream.take(30)
      const unknown = await exchange.askAll(asks)
      assert(
        unknown.every((answer) => isRejection(answer) && answer.rejected === 'OUTCOME_UNKNOWN'),
      )
      intruder.exec('ROLLBACK')
      intruder.close()
      const again = await eventually(async () => {
        const answers = await exchange.askAll(asks)
        assert(answers.every((answer) => !isRejection(answer) || answer.rejected !== 'OVERLOADED'))
        return answers
      })
      for (const [index, { ask }] of asks.entries()) {
        if (ask[0] === 'PlaceOrder')
          assert('status' in (again[index] as object), String(again[index]))
      }
      const reloads = exchange.received.get('front-0')!.filter((line) => 'reloaded' in line)
      assert(reloads.length >= 1, 'the readers are told')
      assertOpen(expectedFrom(dataDir), await openOrders(exchange))
    }))

  test('while one log partition is unavailable, a market thread still applies reports about the settlement lag', () =>
    withExchanges(async (start, dataDir) => {
      const exchange = await start({
        store: false,
        env: { SIBYL_LOG_PARTITIONS: '2' },
      })
      const stream = orderStream(7, 4)
      await openMarkets(exchange, stream)
      const [away, here] = [0, 1].map(
        (partition) => stream.markets.find(({ id }) => Number(`0x${id.at(-1)}`) % 2 === partition)!,
      )
      const place = () => {
        const order = stream.take(50).find(({ marketId, ask }) => {
          return marketId === here!.id && ask[0] === 'PlaceOrder'
        })
        return exchange.askAll([order!]).then(([answer]) => answer)
      }
      const lag = (behind: boolean) =>
        exchange.askAll([
          {
            marketId: here!.id,
            ask: ['SettlementLag', { chainId: here!.chainId, behind }] as never,
          },
        ])
      await lag(true)
      assert.deepEqual(await place(), { rejected: 'SETTLEMENT_BEHIND' })
      const intruder = new Database(join(dataDir, 'log', 'partition-0.db'))
      intruder.exec('BEGIN IMMEDIATE')
      const closing = ['CloseMarket', { marketId: away!.id, reason: 'expired' }] as never
      await exchange.askAll([{ marketId: away!.id, ask: closing }])
      await lag(false)
      assert(!isRejection(await place()))
      intruder.exec('ROLLBACK')
      intruder.close()
    }))

  test('session orders of a dead front are cancelled even if the log is unavailable when the front dies', () =>
    withExchanges(async (start, dataDir) => {
      const exchange = await start({
        store: false,
        relays: 2,
        env: { SIBYL_LOG_PARTITIONS: '1' },
      })
      const stream = orderStream(8, 1)
      await openMarkets(exchange, stream)
      const places = stream.take(12).filter(({ ask }) => ask[0] === 'PlaceOrder')
      const held = places.slice(0, 6)
      const inSession = held.map(({ marketId, ask }) => ({
        marketId,
        ask: ['PlaceOrder', { ...(ask[1] as object), session: 's' }] as never,
      }))
      assert.ok(!(await exchange.askAll(inSession, 'front-1')).some(isRejection))
      await exchange.askAll(places.slice(6))
      const isHeld = new Set(
        held.map(({ ask }) => (ask[1] as { order: VerifiedOrder }).order.orderHash),
      )
      const open = async () => (await openOrders(exchange)).map(({ orderHash }) => orderHash)
      const before = await open()
      const stays = before.filter((orderHash) => !isHeld.has(orderHash))
      assert.ok(before.length > stays.length && stays.length > 0, 'the test needs both')
      const intruder = new Database(join(dataDir, 'log', 'partition-0.db'))
      intruder.exec('BEGIN IMMEDIATE')
      await exchange.supervisor.kill('front-1')
      const reloads = () => exchange.received.get('front-0')!.filter((line) => 'reloaded' in line)
      await eventually(() => assert.ok(reloads().length > 0, 'the cancels failed'))
      intruder.exec('ROLLBACK')
      intruder.close()
      await eventually(async () => assert.deepEqual(await open(), stays))
    }))
})
