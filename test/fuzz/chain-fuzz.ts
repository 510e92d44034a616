/**
 * Feeds the indexer with logs of every event that the exchange reads. Most of the logs are hostile: no honest contract
 * writes their values. The indexer must always reach the newest block, and its sums of the honest events in the
 * database must be exact.
 */

import assert from 'node:assert/strict'
import {
  type Abi,
  type AbiEvent,
  encodeAbiParameters,
  encodeFunctionResult,
  type Hex,
  toEventSelector,
} from 'viem'
import { positionIdOf } from '#chain/position-id.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { settlementAbi } from '#contracts/artifacts/Settlement.abi.ts'
import { type Address, type MarketId, ZERO_ADDRESS } from '#domain/ids.ts'
import { CHAIN_SET_ASIDE_MAX } from '#domain/limits.ts'
import { auditPositions } from '#store/audit/audit-positions.ts'
import { auditSetAside } from '#store/audit/audit-set-aside.ts'
import type { Database } from '#store/engine/database.ts'
import { assertionsOfMarket, chainMarketById, tokenBalancesOf } from '#store/reads/chain-markets.ts'
import { openInterestOf, positionOf } from '#store/reads/positions.ts'
import { eventually } from '../support/eventually.ts'
import { followChain } from '../support/follow-chain.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { startRpcProxy } from '../support/rpc-proxy.ts'
import { type BareLog, fakeChain } from './fake-chain.ts'

const CHAIN_ID = 31_337
const contracts = {
  marketFactory: `0x${'fa'.repeat(20)}` as Address,
  conditionalTokens: `0x${'c7'.repeat(20)}` as Address,
  settlement: `0x${'5e'.repeat(20)}` as Address,
  stablecoin: `0x${'0c'.repeat(20)}` as Address,
}
const ZERO_WORD: Hex = `0x${'0'.repeat(64)}`
const MAX = 2n ** 256n - 1n
const HOLDERS = ['1', '2', '3', '4'].map((digit) => `0x${digit.repeat(40)}` as Address)

type Honest = {
  readonly id: MarketId
  readonly contract: Address
  readonly tokens: readonly [yes: Hex, no: Hex]
}

/** Expected sums in the database, computed from the honest logs. `locked` includes collateral from hostile logs. */
type Model = {
  readonly shares: Map<string, bigint>
  readonly locked: Map<MarketId, bigint>
  readonly proposals: Map<MarketId, number>
}

type Effect = (model: Model) => void
type Planned = { readonly logs: readonly BareLog[]; readonly effects: readonly Effect[] }

export type FuzzReport = {
  readonly logs: number
  readonly blocks: number
  readonly markets: number
  readonly setAside: number
  readonly reorgs: number
}

export async function fuzzChain(
  database: Database,
  { seed, logs }: { readonly seed: number; readonly logs: number },
): Promise<FuzzReport> {
  const random = randomFrom(seed)
  const markets: Honest[] = []
  const chain = fakeChain(CHAIN_ID, (to) => termsOf(markets, to), 400)
  const proxy = await startRpcProxy(chain)
  const follower = followChain({
    database,
    url: proxy.url,
    chainId: CHAIN_ID,
    contracts,
    rangeBlocksMax: 40,
  })
  const flow = new Flow(random, markets)
  const effects: Effect[][] = [[]]
  let made = 0
  try {
    while (made < logs) {
      if (chain.height() > 20 && random.chance(0.2)) dropBlocks(random.int(1, 6))
      for (let blocks = random.int(1, 30); blocks > 0; blocks--) mineBlock()
      await caughtUp()
      if (random.chance(0.2)) await compare()
    }
    await compare()
    const setAside = await auditSetAside(database)
    assert(setAside.length <= 2 * CHAIN_SET_ASIDE_MAX, 'what was set aside is bounded')
    const told = follower.said.flatMap((news) =>
      news.type === 'EventsSetAside' ? news.setAside : [],
    )
    return {
      logs: made,
      blocks: chain.height(),
      markets: markets.length,
      setAside: told.length,
      reorgs: follower.state.reorgs,
    }
  } catch (error) {
    if (error instanceof Error) error.message = `seed ${seed}: ${error.message}`
    throw error
  } finally {
    follower.stop()
    await proxy.close()
  }

  function mineBlock(): void {
    const planned: Planned[] = []
    const crowd = random.chance(0.02) ? 500 : random.int(0, 25)
    for (let count = crowd; count > 0; count--) {
      planned.push(random.chance(0.25) ? flow.honest() : flow.hostile())
    }
    chain.mine(planned.map(({ logs: told }) => told))
    effects.push(planned.flatMap(({ effects: each }) => [...each]))
    for (const { logs: told } of planned) made += told.length
  }

  function dropBlocks(count: number): void {
    chain.drop(count)
    effects.length = chain.height() + 1
    flow.become(folded(effects))
  }

  async function caughtUp(): Promise<void> {
    await eventually(() => {
      const { indexed, why } = follower.state
      assert.equal(indexed?.number, chain.height(), why)
    })
  }

  async function compare(): Promise<void> {
    const model = folded(effects)
    assert.deepEqual((await auditPositions(database)).differences, [])
    for (const { id } of markets.filter(({ id: each }) => model.locked.has(each))) {
      assert.equal((await chainMarketById(database, id))?.id, id)
      const wanted = model.locked.get(id) ?? 0n
      assert.equal(await openInterestOf(database, { marketId: id }), wanted, `locked in ${id}`)
      const proposals = await assertionsOfMarket(database, id)
      const honest = proposals.filter(({ bond }) => bond === HONEST_BOND)
      assert.equal(honest.length, model.proposals.get(id) ?? 0, `proposals of ${id}`)
    }
    for (const holder of HOLDERS) {
      const balances = await tokenBalancesOf(database, holder, CHAIN_ID)
      for (const { id } of markets.filter(({ id: each }) => model.locked.has(each))) {
        const wanted = [0, 1].map((outcome) => model.shares.get(keyOf(id, outcome, holder)) ?? 0n)
        const known = [0, 1].map((outcome) =>
          BigInt(
            balances.find((row) => row.marketId === id && row.outcome === outcome)?.balance ?? 0,
          ),
        )
        assert.deepEqual(known, wanted, `balances of ${holder} in ${id}`)
        const position = await positionOf(database, { market: { marketId: id }, user: holder })
        assert.deepEqual([position?.yesShares ?? 0n, position?.noShares ?? 0n], wanted)
      }
    }
  }
}

const HONEST_BOND = '750000123'

function keyOf(id: MarketId, outcome: number, holder: Address): string {
  return `${id}/${outcome}/${holder}`
}

function newModel(): Model {
  return { shares: new Map(), locked: new Map(), proposals: new Map() }
}

function folded(effects: readonly (readonly Effect[])[]): Model {
  const model = newModel()
  for (const block of effects) for (const effect of block) effect(model)
  return model
}

function termsOf(markets: readonly Honest[], to: string): string {
  if (!markets.some(({ contract }) => contract === to)) return '0x'
  return encodeFunctionResult({
    abi: marketAbi,
    functionName: 'terms',
    result: {
      questionId: ZERO_WORD,
      maker: HOLDERS[0] as Hex,
      expiration: 1n,
      proposableFrom: 1n,
      quick: true,
      question: '',
      description: '',
    },
  })
}

/** Makes transactions, honest and hostile. */
class Flow {
  private model = newModel()
  private count = 0
  private readonly random: Random
  private readonly markets: Honest[]

  constructor(random: Random, markets: Honest[]) {
    this.random = random
    this.markets = markets
  }

  /** Restores the expected state after blocks were removed. */
  become(model: Model): void {
    this.model = model
  }

  honest(): Planned {
    const { random } = this
    const open = this.markets.filter(({ id }) => this.model.locked.has(id))
    const market = random.pick(open)
    if (market === undefined || (open.length < 6 && random.chance(0.1))) return this.creation()
    const holder = random.pick(HOLDERS)
    const outcome = random.int(0, 1)
    const held = this.model.shares.get(keyOf(market.id, outcome, holder)) ?? 0n
    if (held === 0n || random.chance(0.3)) return this.split(market, holder)
    const amount = 1n + (held - 1n) / BigInt(random.int(1, 5))
    const what = random.int(0, 3)
    if (what === 0) return this.moved(market, outcome, holder, amount, contracts.settlement)
    if (what === 1) return this.moved(market, outcome, holder, amount, holder)
    if (what === 2) return this.redeemed(market, outcome, holder, held)
    return this.proposed(market)
  }

  /** Makes a log of a random event, account and values, complete or damaged. */
  hostile(): Planned {
    const { random } = this
    const [abi, own] = random.pick([
      [conditionalTokensAbi, contracts.conditionalTokens],
      [conditionalTokensAbi, contracts.conditionalTokens],
      [marketFactoryAbi, contracts.marketFactory],
      [settlementAbi, contracts.settlement],
      [marketAbi, undefined],
    ] as const)
    const market = random.pick(this.markets)?.contract
    const strange = random.hex(20)
    const address = random.chance(0.15) ? strange : (own ?? market ?? strange)
    const events = (abi as Abi).filter((item): item is AbiEvent => item.type === 'event')
    const event = random.pick(events)
    const values = event.inputs.map(({ type }) => this.value(type, event.name))
    const topics: Hex[] = [toEventSelector(event)]
    for (const [index, { indexed }] of event.inputs.entries()) {
      if (indexed === true) topics.push(wordOf(values[index]))
    }
    const plain = event.inputs.flatMap(({ indexed, type }, index) =>
      indexed === true ? [] : [{ type: rawType(type), value: values[index] }],
    )
    const whole = encodeAbiParameters(
      plain.map(({ type }) => ({ type })),
      plain.map(({ value }) => value),
    )
    let data = whole
    const indexed = topics.length
    const garbles = random.chance(0.1)
    const how = random.int(0, 2)
    if (garbles && how === 0) data = data.slice(0, 2 + 2 * random.int(0, 40)) as Hex
    if (garbles && how === 1) data = random.hex(random.int(0, 200)) as Hex
    if (garbles && how === 2) topics.splice(random.int(1, topics.length), 1)
    // A complete hostile log may lock or release collateral of a market. Then it also changes the expected sum.
    const told = { address, topics, data }
    const isWhole = data === whole && topics.length === indexed
    const effects = isWhole ? this.lockedBy(event.name, address, event, values) : []
    return this.done([told], effects)
  }

  private lockedBy(
    name: string,
    address: string,
    { inputs }: AbiEvent,
    values: readonly unknown[],
  ): Effect[] {
    if (address !== contracts.conditionalTokens) return []
    const value = (field: string) => values[inputs.findIndex((input) => input.name === field)]
    if (addressOf(value('collateralToken')) !== contracts.stablecoin) return []
    if (wordOf(value('parentCollectionId')) !== ZERO_WORD) return []
    const id = wordOf(value('conditionId')) as string as MarketId
    const sets = new Set((value('partition') ?? value('indexSets')) as bigint[])
    const isMarkets = [...sets].every((set) => set === 1n || set === 2n)
    const redeems = name === 'PayoutRedemption'
    if (!isMarkets || (!redeems && sets.size !== 2)) return []
    const amount = (redeems ? value('payout') : value('amount')) as bigint
    const change = name === 'PositionSplit' ? amount : -amount
    return [
      ({ locked }) => {
        // Counts only the collateral of markets that exist in the model. Events with made-up market ids change nothing.
        const before = locked.get(id)
        if (before !== undefined) locked.set(id, before + change)
      },
    ]
  }

  private value(type: string, event: string): unknown {
    const { random, markets } = this
    const market = random.pick(markets)
    if (type.endsWith('[]')) {
      const lengths = [0, 1, 2, 2, 3, 40, 300]
      const length = random.pick(lengths)
      const small = random.chance(0.4)
      return Array.from({ length }, (_, at) =>
        small ? BigInt((at % 2) + 1) : this.value(type.slice(0, -2), event),
      )
    }
    if (type === 'string') return this.text()
    if (type === 'bytes32') {
      // No hostile log resolves a known market, because the market would have no further events.
      const known = event === 'MarketResolved' ? undefined : market?.id
      return random.pick([ZERO_WORD, wordOf(MAX), random.hex(32), known ?? random.hex(32)])
    }
    if (type === 'address') {
      const { stablecoin, settlement } = contracts
      // Never pick an honest holder here, because the test compares the balances of honest holders.
      const clean = random.pick([
        ZERO_ADDRESS,
        `0x${'f'.repeat(40)}`,
        random.hex(20),
        stablecoin,
        settlement,
        market?.contract ?? ZERO_ADDRESS,
      ])
      const dirt = random.chance(0.1) ? 0xdeadn << 200n : 0n
      return BigInt(clean) | dirt
    }
    const token = BigInt(random.pick(market?.tokens ?? [ZERO_WORD]))
    return random.pick([
      0n,
      1n,
      2n,
      3n,
      255n,
      2n ** 53n,
      2n ** 63n - 1n,
      2n ** 63n,
      2n ** 64n - 1n,
      2n ** 64n,
      2n ** 128n,
      2n ** 255n,
      MAX - 1n,
      MAX,
      token,
      BigInt(random.hex(32)),
    ])
  }

  /** Returns a random text as bytes, because the text may be invalid UTF-8. */
  private text(): Hex {
    const { random } = this
    const texts = [
      '',
      '\0',
      "'; drop table chain_markets; --",
      '\\',
      '\\\'"`?',
      '🌧'.repeat(30),
      'a'.repeat(65),
      'long '.repeat(random.pick([10, 5_000, 30_000])),
      '%s ? :name $1',
      '\u202egnirts',
    ]
    if (random.chance(0.3)) return random.hex(random.int(1, 100)) as Hex
    return `0x${Buffer.from(random.pick(texts)).toString('hex')}`
  }

  private creation(): Planned {
    const { random } = this
    const id = random.hex(32) as MarketId
    const tokens = [0, 1].map((outcome) =>
      positionIdOf(contracts.stablecoin, id, outcome as 0 | 1),
    ) as unknown as Honest['tokens']
    const market: Honest = { id, contract: random.hex(20) as Address, tokens }
    this.markets.push(market)
    const quick = random.chance(0.3)
    const log = quick
      ? logOf(marketFactoryAbi, contracts.marketFactory, 'QuickMarketCreated', {
          marketId: id,
          market: market.contract,
          asset: 'BTC',
          startTime: 1n,
          endTime: 2n,
          startPrice: 3n,
          source: 'pyth',
        })
      : logOf(marketFactoryAbi, contracts.marketFactory, 'MarketCreated', {
          marketId: id,
          market: market.contract,
          maker: HOLDERS[0],
          question: 'Will it?',
          description: '',
          category: 1n,
          expiration: 2_000_000_000n,
        })
    return this.done([log], [({ locked }) => locked.set(id, 0n)])
  }

  private split({ id, tokens }: Honest, holder: Address): Planned {
    const amount = BigInt(this.random.int(1, 1_000_000_000))
    const logs = [
      this.batch(holder, ZERO_ADDRESS, holder, [...tokens], [amount, amount]),
      logOf(conditionalTokensAbi, contracts.conditionalTokens, 'PositionSplit', {
        stakeholder: holder,
        collateralToken: contracts.stablecoin,
        parentCollectionId: ZERO_WORD,
        conditionId: id,
        partition: [1n, 2n],
        amount,
      }),
    ]
    return this.done(logs, [
      changes(id, 0, holder, amount),
      changes(id, 1, holder, amount),
      locks(id, amount),
    ])
  }

  private moved(
    { id, tokens }: Honest,
    outcome: number,
    from: Address,
    amount: bigint,
    operator: Address,
  ): Planned {
    const to = this.random.pick(HOLDERS)
    const logs = [this.single(operator, from, to, tokens[outcome as 0 | 1], amount)]
    if (operator === contracts.settlement) {
      logs.push(
        logOf(settlementAbi, contracts.settlement, 'TradeSettled', {
          tradeId: this.random.hex(32),
          buyer: to,
          seller: from,
          marketId: id,
          buyHash: this.random.hex(32),
          sellHash: this.random.hex(32),
          outcome: BigInt(outcome),
          price: 500_000n,
          size: amount,
          cost: amount / 2n,
        }),
      )
    }
    return this.done(logs, [changes(id, outcome, from, -amount), changes(id, outcome, to, amount)])
  }

  private redeemed(
    { id, tokens }: Honest,
    outcome: number,
    holder: Address,
    amount: bigint,
  ): Planned {
    const set = 1n << BigInt(outcome)
    const logs = [
      this.single(holder, holder, ZERO_ADDRESS, tokens[outcome as 0 | 1], amount),
      logOf(conditionalTokensAbi, contracts.conditionalTokens, 'PayoutRedemption', {
        redeemer: holder,
        collateralToken: contracts.stablecoin,
        parentCollectionId: ZERO_WORD,
        conditionId: id,
        indexSets: Array.from({ length: this.random.pick([1, 2, 40]) }, () => set),
        payout: amount,
      }),
    ]
    return this.done(logs, [changes(id, outcome, holder, -amount), locks(id, -amount)])
  }

  private proposed({ id, contract }: Honest): Planned {
    const log = logOf(marketAbi, contract, 'ResolutionProposed', {
      marketId: id,
      assertionId: this.random.hex(32),
      proposer: HOLDERS[0],
      asserter: HOLDERS[1],
      outcome: 1n,
      bond: BigInt(HONEST_BOND),
      assertionTime: 1n,
      expirationTime: 2n,
    })
    const count: Effect = ({ proposals }) => proposals.set(id, (proposals.get(id) ?? 0) + 1)
    return this.done([log], [count])
  }

  private single(operator: Address, from: Address, to: Address, id: Hex, value: bigint): BareLog {
    return logOf(conditionalTokensAbi, contracts.conditionalTokens, 'TransferSingle', {
      operator,
      from,
      to,
      id: BigInt(id),
      value,
    })
  }

  private batch(
    operator: Address,
    from: Address,
    to: Address,
    ids: readonly Hex[],
    values: readonly bigint[],
  ): BareLog {
    return logOf(conditionalTokensAbi, contracts.conditionalTokens, 'TransferBatch', {
      operator,
      from,
      to,
      ids: ids.map(BigInt),
      values,
    })
  }

  private done(logs: readonly BareLog[], effects: readonly Effect[]): Planned {
    this.count += logs.length
    for (const effect of effects) effect(this.model)
    return { logs, effects }
  }
}

function changes(id: MarketId, outcome: number, holder: Address, by: bigint): Effect {
  const key = keyOf(id, outcome, holder)
  return ({ shares }) => {
    shares.set(key, (shares.get(key) ?? 0n) + by)
  }
}

function locks(id: MarketId, by: bigint): Effect {
  return ({ locked }) => {
    locked.set(id, (locked.get(id) ?? 0n) + by)
  }
}

/** Returns a log of an event as its contract emits it. */
function logOf(abi: Abi, address: Address, name: string, args: Record<string, unknown>): BareLog {
  const event = abi.find((item): item is AbiEvent => item.type === 'event' && item.name === name)
  assert(event !== undefined, name)
  const given = (input: string | undefined) => {
    const value = args[input ?? '']
    assert(value !== undefined, `${name} needs ${input}`)
    return value
  }
  const plain = event.inputs.filter(({ indexed }) => indexed !== true)
  return {
    address,
    topics: [
      toEventSelector(event),
      ...event.inputs
        .filter(({ indexed }) => indexed === true)
        .map(({ name: field }) => wordOf(given(field))),
    ],
    data: encodeAbiParameters(
      plain.map(({ type }) => ({ type: rawType(type) })),
      plain.map(({ name: field, type }) => {
        const value = given(field)
        if (type === 'string') return `0x${Buffer.from(String(value)).toString('hex')}`
        return rawType(type) === 'uint256' ? BigInt(value as string) : value
      }),
    ),
  }
}

/** Returns an ABI type that is encoded like this one, but accepts values that are invalid for it. */
function rawType(type: string): string {
  if (type.endsWith('[]')) return 'uint256[]'
  if (type === 'string') return 'bytes'
  return type === 'bytes32' ? type : 'uint256'
}

function wordOf(value: unknown): Hex {
  if (Array.isArray(value)) return ZERO_WORD
  const bits = value === undefined ? 0n : BigInt(value as string | bigint)
  return `0x${(bits & MAX).toString(16).padStart(64, '0')}`
}

function addressOf(value: unknown): string {
  return `0x${wordOf(value).slice(26)}`
}
