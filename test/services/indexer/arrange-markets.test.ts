import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reject } from '#domain/rejection.ts'
import { makeMarketArranger } from '#services/indexer/thread/arrange-markets.ts'
import { aMarket } from '../market/market-fixture.ts'
import { marketId } from '../market/thread-fixture.ts'

const due = (...numbers: number[]) => ({
  open: numbers.map((n) => aMarket({ id: marketId(n) })),
  close: [],
  cancel: [],
})

/** Makes a market arranger whose market threads answer as `answerOf` defines. */
function arranging(answerOf: (n: number) => object) {
  const asked: number[] = []
  const ask = async (_type: string, { market }: { market: { id: string } }) => {
    const n = Number(market.id)
    asked.push(n)
    return answerOf(n)
  }
  const arranger = makeMarketArranger((() => ({ ask })) as never)
  return { ...arranger, take: () => asked.splice(0) }
}

test('the indexer offers a new market again after a market thread refused it for overload or full storage', async () => {
  for (const code of ['STORAGE_FULL', 'OVERLOADED'] as const) {
    let isFull = true
    const { arrange, take } = arranging((n) => (n === 1 && isFull ? reject(code) : {}))
    await arrange(due(1, 2))
    assert.deepEqual(take(), [1, 2], 'the other market does not wait for it')
    isFull = false
    await arrange(due(1, 2))
    assert.deepEqual(take(), [1])
    await arrange(due(1, 2))
    assert.deepEqual(take(), [])
  }
})

test('a market that its market thread rejected permanently is offered again only after a reorg or reconnection', async () => {
  const { arrange, forget, take } = arranging(() => reject('MARKET_CLOSED'))
  await arrange(due(1))
  await arrange(due(1))
  assert.deepEqual(take(), [1])
  forget()
  await arrange(due(1))
  assert.deepEqual(take(), [1])
})
