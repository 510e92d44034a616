/**
 * Tests the short forms of messages on a real channel: each message arrives unchanged, whether or not it has a short
 * form.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import type { MarketId, Uint64 } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { NO, SELL } from '#domain/order.ts'
import { reject } from '#domain/rejection.ts'
import { ACCOUNTS_FORMS } from '#protocol/accounts-forms.ts'
import { Channel, type ChannelOptions } from '#runtime/channel.ts'
import type { AccountsProtocol } from '#services/accounts/state.ts'
import { hashNamed, traderNamed } from '../support/orders.ts'

const OPTIONS: ChannelOptions = {
  ...{ inFlightMax: 100, batchMax: 64, deadlineMs: 60_000, forms: ACCOUNTS_FORMS },
}

/** An order with every field: if a field is added to the type, this does not compile until it is added here. */
const order: AccountsProtocol['Reserve']['takes']['order'] = {
  chainId: 31_337,
  orderHash: hashNamed('a'),
  marketId: hashNamed('m') as string as MarketId,
  trader: traderNamed('ann'),
  side: SELL,
  outcome: NO,
  price: 420_000 as Price,
  size: Number.MAX_SAFE_INTEGER as Shares,
  permit: '18446744073709551615' as Uint64,
}

test('a front’s requests to the accounts thread and their answers arrive with unchanged fields', async () => {
  const { port1, port2 } = new MessageChannel()
  const received: [string, unknown][] = []
  const answers = [{ granted: true }, reject('INSUFFICIENT_FUNDS', 'size', 'too little')]
  const accounts = new Channel(port2, OPTIONS, {
    received(type, message, replyTo) {
      received.push([type, message])
      accounts.reply(replyTo, answers[received.length % 2])
    },
  })
  const front = new Channel<AccountsProtocol>(port1, OPTIONS, { received: () => {} })
  try {
    const asked = { order, deadlineAtMs: 1_800_000_000_123 }
    const plain = { order: { ...order, permit: undefined }, deadlineAtMs: 1 }
    assert.deepEqual(await front.ask('Reserve', asked), answers[1])
    assert.deepEqual(await front.ask('Reserve', plain), answers[0])
    assert.deepEqual(await front.ask('Check', asked), answers[1])
    assert.deepEqual(received, [
      ['Reserve', asked],
      ['Reserve', plain],
      ['Check', asked],
    ])
  } finally {
    front.close()
    accounts.close()
  }
})
