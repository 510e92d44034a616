/** Tests the fast encoders for pages of a user. Their output must equal the JSON of the general encoder. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type UserTrade, userActivityJson, userPositionsJson } from '#api/positions/user-pages.ts'
import { checksumAddress } from '#domain/checksum-address.ts'
import { type Address, type MarketId, type OrderHash, tradeId } from '#domain/ids.ts'
import { exactInteger, writeJson } from '#http/json.ts'
import type { AnswerTo } from '#protocol/queries.ts'
import { type Random, withSeeds } from '../support/random.ts'

const QUESTIONS = [
  'Will it?',
  '',
  'A "quote" \\ and\nlines\u2028 \u0007',
  'Ж 雨 🌧️ \ud800',
  '</script>',
]
const SEEDS = [1, 2, 3, 4, 5]

const amount = (random: Random): bigint =>
  random.chance(0.2) ? BigInt(random.hex(30)) : BigInt(random.int(0, 2 ** 50))

const some = <Item>(random: Random, make: () => Item): Item[] =>
  Array.from({ length: random.int(0, 4) }, make)

test('the fast encoder of user activity writes exactly the JSON of the general encoder', () => {
  withSeeds(SEEDS, (random) => {
    const market = () => ({
      marketId: random.hex(32) as MarketId,
      marketQuestion: random.pick(QUESTIONS),
      contractAddress: random.pick([random.hex(20), '0x']) as Address,
    })
    const trades = some(random, (): UserTrade => {
      const { marketId, marketQuestion: question, contractAddress } = market()
      return {
        tradeId: tradeId(marketId, random.int(1, 9_999), random.int(0, 9)),
        marketId,
        market: { question, contractAddress },
        role: random.pick(['buyer', 'seller'] as const),
        outcome: random.int(0, 1),
        price: random.int(1, 999_999),
        size: random.int(1, Number.MAX_SAFE_INTEGER),
        cost: random.int(1, Number.MAX_SAFE_INTEGER),
        status: random.pick(['matched', 'confirmed', 'failed']),
        matchedAtMs: random.int(0, 2_000_000_000_000),
        txHash: random.pick(['', random.hex(32)]),
        orderHash: random.hex(32) as OrderHash,
        takerSide: random.int(0, 1),
        tags: random.pick([{}, { label: 'a "b" \\' }, { label: 'c', group: 'd' }]),
      }
    })
    const payouts = some(random, (): AnswerTo<'payoutsOfUser'>[number] => ({
      ...market(),
      winningOutcome: random.int(0, 1),
      payout: amount(random),
      txHash: random.pick(['', random.hex(32)]),
      status: random.pick(['pending', 'confirmed', 'failed']),
      atMs: random.int(0, 2_000_000_000_000),
    }))
    const place = { atMs: random.int(1, 99), seq: random.int(1, 99), fillIndex: 0, row: 7 }
    const next = random.pick([undefined, place])
    const body = {
      activity: trades.map(({ role, matchedAtMs, market: words, txHash, ...trade }) => ({
        tradeId: trade.tradeId,
        marketId: trade.marketId,
        marketQuestion: words.question,
        contractAddress: checksumAddress(words.contractAddress),
        role,
        outcome: trade.outcome,
        price: trade.price,
        size: trade.size,
        cost: trade.cost,
        status: trade.status,
        timestamp: Math.floor(matchedAtMs / 1_000),
        txHash,
        orderHash: trade.orderHash,
        takerSide: trade.takerSide,
        ...trade.tags,
      })),
      settlements: payouts.map(({ atMs, contractAddress, payout, txHash, status, ...rest }) => ({
        marketId: rest.marketId,
        marketQuestion: rest.marketQuestion,
        contractAddress: checksumAddress(contractAddress),
        winningOutcome: rest.winningOutcome,
        payout: exactInteger(payout),
        txHash,
        status,
        timestamp: Math.floor(atMs / 1_000),
      })),
      nextBefore: next === undefined ? null : `${place.atMs}.${place.seq}.0.7`,
    }
    assert.equal(userActivityJson({ trades, payouts, next }), writeJson(body))
  })
})

test('the fast encoder of user positions writes exactly the JSON of the general encoder', () => {
  withSeeds(SEEDS, (random) => {
    const positions = some(random, (): AnswerTo<'positionsOfUser'>[number] => ({
      marketId: random.hex(32) as MarketId,
      question: random.pick(QUESTIONS),
      contractAddress: random.hex(20) as Address,
      yesShares: amount(random),
      noShares: amount(random),
      yesCost: amount(random),
      noCost: amount(random),
      realisedProfit: random.chance(0.5) ? -amount(random) : amount(random),
      expiration: random.int(0, 2_000_000_000),
      resolved: random.chance(0.5),
    }))
    const profit = -amount(random)
    const limit = random.int(1, 4)
    const body = {
      positions: positions.map((position) => ({
        marketId: position.marketId,
        marketQuestion: position.question,
        contractAddress: checksumAddress(position.contractAddress),
        yesShares: exactInteger(position.yesShares),
        noShares: exactInteger(position.noShares),
        totalInvested: exactInteger(position.yesCost + position.noCost),
        yesCost: exactInteger(position.yesCost),
        noCost: exactInteger(position.noCost),
        realisedProfit: exactInteger(position.realisedProfit),
        expiration: position.expiration,
        resolved: position.resolved,
      })),
      count: positions.length,
      realisedProfit: exactInteger(profit),
      nextCursor: positions.length < limit ? null : positions.at(-1)?.marketId,
    }
    assert.equal(userPositionsJson(positions, profit, limit), writeJson(body))
  })
})
