import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { type Hex, keccak256, toHex } from 'viem'
import { ours } from '#devnet/artifact.ts'
import type { Address } from '#domain/ids.ts'
import { EVENT_MARKET_TYPES, factoryDomain, typeString } from '#domain/typed-data.ts'
import { marketAbi } from '../../contracts/artifacts/Market.abi.ts'
import {
  assertReverts,
  eventsOf,
  type Market,
  NO,
  SETTINGS,
  startWorld,
  UNIT,
  type World,
  YES,
  ZERO_BYTES32,
} from './support/world.ts'

const INTERVAL = 900
const STRIKE = 6_000_000_000_000n
const FALLBACK = 7n * 86_400n

let world: World
let restore: (() => Promise<void>) | undefined

before(async () => {
  world = await startWorld()
})
after(() => world.chain.close())
beforeEach(async () => {
  await restore?.()
  restore = await world.chain.snapshot()
})

describe('the markets of the factory are created and resolved by the rules of the contract', () => {
  async function terms() {
    const expiration = (await world.chain.now()) + 3_600n
    return ['Will it rain?', 'By the gauge.', 1, expiration] as const
  }

  test('a market is created at its predicted address, with its condition prepared', async () => {
    const { maker, chain, factory, conditionalTokens, read } = world
    const args = await terms()
    const [address, id] = await read(factory, 'predictMarket', [maker.address, ...args])
    const receipt = await chain.send(maker, factory, 'createMarket', args)
    assert.deepEqual(eventsOf(receipt, factory), [
      {
        eventName: 'MarketCreated',
        args: {
          marketId: id,
          market: address,
          maker: maker.address,
          question: args[0],
          description: args[1],
          category: args[2],
          expiration: args[3],
        },
      },
    ])
    const market = { address, abi: marketAbi }
    assert.equal(await read(factory, 'isMarket', [address]), true)
    assert.equal(await read(market, 'marketId', []), id)
    const { questionId, ...rest } = await read(market, 'terms', [])
    assert.deepEqual(rest, {
      maker: maker.address,
      expiration: args[3],
      proposableFrom: args[3],
      quick: false,
      question: args[0],
      description: args[1],
    })
    assert.equal(await read(conditionalTokens, 'getConditionId', [address, questionId, 2n]), id)
    assert.equal(await read(conditionalTokens, 'getOutcomeSlotCount', [id]), 2n)
  })

  test('a complementary market gets its predicted address, and an ordinary market with the same terms is then refused', async () => {
    const { maker, carol, chain, factory, read } = world
    const args = await terms()
    const [address, id] = await read(factory, 'predictMarket', [maker.address, ...args])
    const receipt = await chain.send(maker, factory, 'createComplementaryMarket', args)
    const [chosen, created] = eventsOf(receipt, factory)
    assert.deepEqual(chosen, {
      eventName: 'ComplementaryMarket',
      args: { marketId: id, market: address },
    })
    assert.equal(created?.eventName, 'MarketCreated')
    assert.equal(await read(factory, 'isComplementary', [address]), true)
    await assertReverts(chain.send(maker, factory, 'createMarket', args), 'MarketExists')
    await assertReverts(chain.send(carol, factory, 'createComplementaryMarket', args), 'NotMaker', [
      carol.address,
    ])
    const plain = [args[0], 'By another gauge.', args[2], args[3]] as const
    const [other] = await read(factory, 'predictMarket', [maker.address, ...plain])
    await chain.send(maker, factory, 'createMarket', plain)
    assert.equal(await read(factory, 'isComplementary', [other]), false)
  })

  test('a market can be created even if a stranger has already prepared its condition', async () => {
    const { maker, carol, chain, factory, conditionalTokens, read } = world
    const args = await terms()
    const [address, id] = await read(factory, 'predictMarket', [maker.address, ...args])
    const questionId = await read(factory, 'questionIdOf', [maker.address, ...args])
    await chain.send(carol, conditionalTokens, 'prepareCondition', [address, questionId, 2n])
    await chain.send(maker, factory, 'createMarket', args)
    assert.equal(await read({ address, abi: marketAbi }, 'marketId', []), id)
  })

  test('the factory refuses an unauthorised creator, a past end, an invalid text and a duplicate market', async () => {
    const { owner, maker, carol, chain, factory } = world
    const [question, description, category, expiration] = await terms()
    const create = (
      from: World['ann'],
      q: string = question,
      d: string = description,
      e = expiration,
    ) => chain.send(from, factory, 'createMarket', [q, d, category, e])
    await assertReverts(create(carol), 'NotMaker', [carol.address])
    const now = await chain.now()
    await assertReverts(create(maker, question, description, now), 'ExpirationNotInFuture', [now])
    await assertReverts(create(maker, ''), 'InvalidText')
    await assertReverts(create(maker, 'a'.repeat(1_025)), 'InvalidText')
    await assertReverts(create(maker, question, 'a'.repeat(8_193)), 'InvalidText')
    await create(maker)
    await assertReverts(create(maker), 'MarketExists')
    const receipt = await chain.send(owner, factory, 'setMaker', [carol.address, true])
    assert.deepEqual(eventsOf(receipt, factory), [
      { eventName: 'MakerSet', args: { account: carol.address, allowed: true } },
    ])
    // Another maker may create a market with the same text.
    await create(carol)
  })

  test('a market with texts of maximum length fits into one transaction and one oracle claim', async () => {
    const { maker, chain, factory, read } = world
    const expiration = (await chain.now()) + 3_600n
    const args = ['q'.repeat(1_024), 'd'.repeat(8_192), 3, expiration] as const
    const [address] = await read(factory, 'predictMarket', [maker.address, ...args])
    const receipt = await chain.send(maker, factory, 'createMarket', args)
    assert.ok(receipt.gasUsed < 12_000_000n)
    const claim = await read({ address, abi: marketAbi }, 'claim', [false])
    assert.ok(claim.length > 2 * 9_216)
  })

  test('only the factory of a market can initialise the market and resolve it by price', async () => {
    const { ann, maker, chain, factory, createMarket, read } = world
    const market = await createMarket()
    const terms = await read(market, 'terms', [])
    await assertReverts(chain.send(ann, market, 'initialize', [terms]), 'NotFactory', [ann.address])
    await assertReverts(chain.send(maker, market, 'resolveQuick', [0]), 'NotFactory')
    const implementation = {
      address: await read(factory, 'implementation', []),
      abi: marketAbi,
    }
    await assertReverts(chain.send(ann, implementation, 'initialize', [terms]), 'NotFactory')
    // Even the factory cannot initialise a market twice. The factory also cannot resolve a market by price unless it is
    // a quick market.
    await chain.request('hardhat_impersonateAccount', [factory.address])
    await chain.request('hardhat_setBalance', [factory.address, '0xde0b6b3a7640000'])
    const asFactory = { address: factory.address, type: 'json-rpc' } as const
    await assertReverts(chain.send(asFactory, market, 'initialize', [terms]), 'AlreadyInitialized')
    await assertReverts(chain.send(asFactory, market, 'resolveQuick', [0]), 'NotQuick')
  })
})

describe('a market can belong to an event', () => {
  const METADATA = toHex('{"slug":"who-wins"}')

  async function prepare() {
    const { maker, factory, read } = world
    const args = ['Does Ann win?', '', 3, (await world.chain.now()) + 3_600n] as const
    const [address, id] = await read(factory, 'predictMarket', [maker.address, ...args])
    return { args, address, id }
  }

  async function sign(
    market: Hex,
    metadata: Hex,
    signer = world.quickOperator,
    place: { chainId?: number; factory?: Hex } = {},
  ): Promise<Hex> {
    const { chainId = world.chain.id, factory = world.factory.address } = place
    return signer.signTypedData({
      domain: factoryDomain(chainId, factory as string as Address),
      types: EVENT_MARKET_TYPES,
      primaryType: 'EventMarket',
      message: { market, eventHash: keccak256(metadata) },
    })
  }

  test('an event market is created at its predicted address and stores the hash of its signed metadata', async () => {
    const { maker, quickOperator, chain, factory, read } = world
    const { args, address, id } = await prepare()
    assert.equal(
      typeString('EventMarket', EVENT_MARKET_TYPES),
      'EventMarket(address market,bytes32 eventHash)',
    )
    const receipt = await chain.send(maker, factory, 'createEventMarket', [
      ...args,
      METADATA,
      await sign(address, METADATA),
    ])
    const [created, joined] = eventsOf(receipt, factory)
    assert.equal(created?.eventName, 'MarketCreated')
    assert.deepEqual(joined, {
      eventName: 'EventMarketCreated',
      args: {
        marketId: id,
        market: address,
        eventHash: keccak256(METADATA),
        signer: quickOperator.address,
        metadata: METADATA,
      },
    })
    assert.equal(await read(factory, 'eventOf', [address]), keccak256(METADATA))
    assert.equal(await read(factory, 'isMarket', [address]), true)
  })

  test('an event market’s signature can create the market as complementary, and creating it as ordinary then fails', async () => {
    const { maker, chain, factory, read } = world
    const { args, address, id } = await prepare()
    const signature = await sign(address, METADATA)
    const call = [...args, METADATA, signature] as const
    const receipt = await chain.send(maker, factory, 'createComplementaryEventMarket', call)
    const names = eventsOf(receipt, factory).map(({ eventName }) => eventName)
    assert.deepEqual(names, ['ComplementaryMarket', 'MarketCreated', 'EventMarketCreated'])
    assert.equal(await read(factory, 'isComplementary', [address]), true)
    assert.equal(await read(factory, 'eventOf', [address]), keccak256(METADATA))
    const again = chain.send(maker, factory, 'createEventMarket', call)
    await assertReverts(again, 'MarketExists', [address])
    assert.deepEqual(await read(factory, 'predictMarket', [maker.address, ...args]), [address, id])
  })

  test('the factory refuses an event market with an unauthorised creator or without an operator’s signature of its metadata', async () => {
    const { maker, carol, chain, factory } = world
    const { args, address } = await prepare()
    const create = async (
      signature: Hex | Promise<Hex>,
      metadata: Hex = METADATA,
      from: World['ann'] = maker,
      name: 'createEventMarket' | 'createComplementaryEventMarket' = 'createEventMarket',
    ) => chain.send(from, factory, name, [...args, metadata, await signature])
    const other = 'createComplementaryEventMarket'
    await assertReverts(
      create(sign(address, METADATA, carol), METADATA, maker, other),
      'NotOperator',
    )
    await assertReverts(create(sign(address, '0x'), '0x', maker, other), 'InvalidText')
    await assertReverts(create(sign(address, METADATA, carol)), 'NotOperator', [carol.address])
    await assertReverts(create(sign(factory.address, METADATA)), 'NotOperator')
    const { quickOperator } = world
    for (const place of [{ chainId: chain.id + 1 }, { factory: carol.address }]) {
      const elsewhere = sign(address, METADATA, quickOperator, place)
      await assertReverts(create(elsewhere), 'NotOperator')
    }
    await assertReverts(create(sign(address, toHex('{}'))), 'NotOperator')
    await assertReverts(create('0x'), 'NotOperator')
    await assertReverts(create(sign(address, METADATA), METADATA, carol), 'NotMaker')
    await assertReverts(create(sign(address, '0x'), '0x'), 'InvalidText')
    const long = toHex('a'.repeat(8_193))
    await assertReverts(create(sign(address, long), long), 'InvalidText')
    await create(sign(address, METADATA))
    await assertReverts(create(sign(address, METADATA)), 'MarketExists')
  })
})

describe('a quick market opens and resolves by the prices that its operator reports', () => {
  async function predicted(asset = 'BTC'): Promise<Market & { startTime: bigint }> {
    const startTime = (await world.chain.now()) + 5n
    const [address, id] = await world.read(world.factory, 'predictQuickMarket', [
      asset,
      startTime,
      INTERVAL,
    ])
    const expiration = startTime + BigInt(INTERVAL)
    return { address, id, abi: marketAbi, expiration, startTime }
  }

  const create = (market: { startTime: bigint }, asset = 'BTC', strike = STRIKE, source = 'pyth') =>
    world.chain.send(world.quickOperator, world.factory, 'createQuickMarket', [
      asset,
      market.startTime,
      INTERVAL,
      strike,
      source,
    ])

  /**
   * Resolves a market through the factory. The factory passes on errors of the market, so the ABI for decoding has the
   * errors of both contracts.
   */
  const resolve = (market: Market, start: bigint, end: bigint, source = 'pyth') => {
    const errors = marketAbi.filter(({ type }) => type === 'error')
    const abi = [...world.factory.abi, ...errors] as unknown as World['factory']['abi']
    return world.chain.send(
      world.quickOperator,
      { address: world.factory.address, abi },
      'resolveQuickMarket',
      [market.address, start, end, source],
    )
  }

  test('orders signed before the creation of a quick market settle after its creation', async () => {
    const { ann, bob, buy, sell, trade, fund } = world
    const market = await predicted()
    const terms = { price: 500_000n, size: UNIT }
    const buyOrder = await buy(ann, market.id, terms)
    const sellOrder = await sell(bob, market.id, terms)
    await fund(ann, { collateral: UNIT })
    const early = await trade(buyOrder, sellOrder)
    assert.deepEqual(!early.settled && [early.fault, early.reason], ['None', 'MarketUnknown'])
    const receipt = await create(market)
    assert.deepEqual(eventsOf(receipt, world.factory), [
      {
        eventName: 'QuickMarketCreated',
        args: {
          marketId: market.id,
          market: market.address,
          asset: 'BTC',
          startTime: market.startTime,
          endTime: market.expiration,
          startPrice: STRIKE,
          source: 'pyth',
        },
      },
    ])
    await fund(bob, { shares: UNIT, market: market.id })
    assert.equal((await trade(buyOrder, sellOrder)).settled, true)
  })

  for (const [name, end, outcome] of [
    ['above', STRIKE + 1n, YES],
    ['equal to', STRIKE, YES],
    ['below', STRIKE - 1n, NO],
  ] as const) {
    test(`a quick market resolves to ${outcome === YES ? 'YES' : 'NO'} if its end price is ${name} its start price`, async () => {
      const { bob, chain, factory, fund, read, balance, conditionalTokens, collateral } = world
      const market = await predicted()
      await create(market)
      await fund(bob, { shares: UNIT, market: market.id })
      await assertReverts(resolve(market, STRIKE, end), 'NotExpired', [market.expiration])
      await chain.warpTo(market.expiration)
      const receipt = await resolve(market, STRIKE, end)
      assert.deepEqual(eventsOf(receipt, factory), [
        {
          eventName: 'QuickMarketResolved',
          args: {
            marketId: market.id,
            market: market.address,
            winningOutcome: outcome,
            startPrice: STRIKE,
            endPrice: end,
            source: 'pyth',
          },
        },
      ])
      assert.deepEqual(eventsOf(receipt, market), [
        {
          eventName: 'MarketResolved',
          args: { marketId: market.id, assertionId: ZERO_BYTES32, winningOutcome: outcome },
        },
      ])
      assert.equal(await read(market, 'winningOutcome', []), outcome)
      await chain.send(bob, conditionalTokens, 'redeemPositions', [
        collateral.address,
        ZERO_BYTES32,
        market.id,
        [1n << BigInt(outcome)],
      ])
      assert.equal(await balance(bob.address), UNIT)
      await assertReverts(resolve(market, STRIKE, end), 'AlreadyResolved', [outcome])
    })
  }

  test('a quick market can be resolved with a changed start price only if the price source also changes', async () => {
    const { chain, read } = world
    const market = await predicted()
    await create(market)
    await chain.warpTo(market.expiration)
    await assertReverts(resolve(market, STRIKE - 5n, STRIKE), 'StrikeMismatch', [
      STRIKE - 5n,
      STRIKE,
    ])
    await resolve(market, STRIKE + 9n, STRIKE + 8n, 'binance')
    assert.equal(await read(market, 'winningOutcome', []), NO)
  })

  test('a complementary quick market has the same predicted id as an ordinary quick market with the same terms', async () => {
    const { carol, quickOperator, chain, factory, read } = world
    const { id, address, startTime } = await predicted()
    const args = ['BTC', startTime, INTERVAL, STRIKE, 'pyth'] as const
    await assertReverts(
      chain.send(carol, factory, 'createComplementaryQuickMarket', args),
      'NotOperator',
      [carol.address],
    )
    const receipt = await chain.send(quickOperator, factory, 'createComplementaryQuickMarket', args)
    const names = eventsOf(receipt, factory).map(({ eventName }) => eventName)
    assert.deepEqual(names, ['ComplementaryMarket', 'QuickMarketCreated'])
    assert.equal(await read(factory, 'isComplementary', [address]), true)
    assert.equal(await read({ address, abi: marketAbi }, 'marketId', []), id)
  })

  test('the factory refuses an unauthorised creator, invalid terms and duplicates of quick markets', async () => {
    const { carol, quickOperator, owner, chain, factory } = world
    const market = await predicted()
    const { startTime } = market
    const good = ['BTC', startTime, INTERVAL, STRIKE, 'pyth'] as const
    type Args = typeof good
    const submit = (args: Args, from: World['ann'] = quickOperator) =>
      chain.send(from, factory, 'createQuickMarket', args)
    await assertReverts(submit(good, carol), 'NotOperator', [carol.address])
    const bad: [number, unknown, string][] = [
      [0, '', 'InvalidText'],
      [0, 'B'.repeat(33), 'InvalidText'],
      [4, '', 'InvalidText'],
      [2, 0, 'InvalidInterval'],
      [2, 86_401, 'InvalidInterval'],
      [1, startTime + 3_700n, 'StartTooFarAhead'],
      [3, 0n, 'PriceZero'],
    ]
    for (const [index, value, error] of bad) {
      await assertReverts(submit(good.with(index, value as never) as unknown as Args), error)
    }
    await submit(good)
    await assertReverts(submit(good), 'MarketExists', [market.address])
    await chain.warpTo(market.expiration)
    const ordinary = await world.createMarket()
    await assertReverts(resolve(ordinary, 1n, 1n), 'UnknownQuickMarket', [ordinary.address])
    await assertReverts(resolve(market, 0n, 1n), 'PriceZero')
    await assertReverts(resolve(market, STRIKE, 0n), 'PriceZero')
    await assertReverts(resolve(market, STRIKE, STRIKE, ''), 'InvalidText')
    const args = [market.address, STRIKE, STRIKE, 'pyth'] as const
    await assertReverts(chain.send(carol, factory, 'resolveQuickMarket', args), 'NotOperator', [
      carol.address,
    ])
    const receipt = await chain.send(owner, factory, 'setOperator', [carol.address, true])
    assert.equal(eventsOf(receipt, factory)[0]?.eventName, 'OperatorSet')
    await chain.send(carol, factory, 'resolveQuickMarket', args)
  })

  const contest = (market: Pick<Market, 'address'>, evidence: string) => {
    const errors = marketAbi.filter(({ type }) => type === 'error')
    const abi = [...world.factory.abi, ...errors] as unknown as World['factory']['abi']
    const factory = { address: world.factory.address, abi }
    return world.chain.send(world.quickOperator, factory, 'contestQuickMarket', [
      market.address,
      evidence,
    ])
  }

  test('after the operator has contested a quick market, anyone can propose its outcome to the oracle', async () => {
    const { ann, chain, collateral, factory, fund, read } = world
    const market = await predicted()
    await create(market)
    const evidence = 'pyth said 1, then 2; binance said 2, then 1.'
    await assertReverts(contest(market, evidence), 'NotExpired', [market.expiration])
    await chain.warpTo(market.expiration)
    const receipt = await contest(market, evidence)
    assert.deepEqual(eventsOf(receipt, factory), [
      {
        eventName: 'QuickMarketContested',
        args: { marketId: market.id, market: market.address, evidence },
      },
    ])
    // After a market has been opened to the oracle, the operator can neither open it again nor resolve it.
    await assertReverts(contest(market, evidence), 'OpenToOracle')
    await assertReverts(resolve(market, STRIKE, STRIKE), 'OpenToOracle')
    await fund(ann, { collateral: SETTINGS.bond })
    await chain.send(ann, collateral, 'approve', [market.address, SETTINGS.bond])
    await chain.send(ann, market, 'propose', [false])
    const claim = Buffer.from((await read(market, 'claim', [false])).slice(2), 'hex').toString()
    assert.match(
      claim,
      /source pyth\. pyth said 1, then 2; binance said 2, then 1\. The market expired/,
    )
    await chain.warp(SETTINGS.disputeSeconds)
    await chain.send(ann, market, 'settle', [])
    assert.equal(await read(market, 'winningOutcome', []), NO)
    await assertReverts(contest(market, evidence), 'AlreadyResolved', [NO])
  })

  test('only the operator can contest a quick market, only through the factory, with a text of limited length', async () => {
    const { carol, chain, factory } = world
    const market = await predicted()
    await create(market)
    const ordinary = await world.createMarket()
    await chain.warpTo(market.expiration)
    const args = [market.address, 'words'] as const
    await assertReverts(chain.send(carol, factory, 'contestQuickMarket', args), 'NotOperator', [
      carol.address,
    ])
    await assertReverts(chain.send(carol, market, 'openToOracle', ['words']), 'NotFactory')
    await assertReverts(contest(ordinary, 'words'), 'UnknownQuickMarket', [ordinary.address])
    for (const evidence of ['', 'e'.repeat(1_025)]) {
      await assertReverts(contest(market, evidence), 'InvalidText')
    }
    await contest(market, 'e'.repeat(1_024))
  })

  test('if the operator leaves a quick market unresolved for days, anyone can propose its outcome to the oracle', async () => {
    const { ann, chain, collateral, fund, read } = world
    const market = await predicted()
    await create(market)
    await fund(ann, { collateral: 2n * SETTINGS.bond })
    await chain.send(ann, collateral, 'approve', [market.address, 2n * SETTINGS.bond])
    await chain.warpTo(market.expiration)
    const opens = market.expiration + FALLBACK
    await assertReverts(chain.send(ann, market, 'propose', [true]), 'NotExpired', [opens])
    await chain.warpTo(opens)
    await chain.send(ann, market, 'propose', [false])
    const { id } = await read(market, 'assertion', [])
    // Once the question is at the oracle, the operator can no longer resolve it.
    await assertReverts(resolve(market, STRIKE, STRIKE), 'AssertionActive', [id])
    await chain.warp(SETTINGS.disputeSeconds)
    await chain.send(ann, market, 'settle', [])
    assert.equal(await read(market, 'winningOutcome', []), NO)
    const claim = Buffer.from((await read(market, 'claim', [false])).slice(2), 'hex').toString()
    assert.match(claim, /price of BTC at or above .*Start price 6000000000000 .*source pyth/)
  })
})

describe('the market factory protects its owner and roles', () => {
  test('the market factory changes its owner in two steps, always has an owner, and lets only the owner set roles', async () => {
    const { owner, carol, chain, factory, read } = world
    for (const name of ['setMaker', 'setOperator'] as const) {
      await assertReverts(
        chain.send(carol, factory, name, [carol.address, true]),
        'OwnableUnauthorizedAccount',
      )
    }
    await assertReverts(
      chain.publicClient.readContract({
        ...factory,
        functionName: 'renounceOwnership',
        account: owner.address,
      }),
      'OwnershipNotRenounceable',
    )
    await chain.send(owner, factory, 'transferOwnership', [carol.address])
    await chain.send(carol, factory, 'acceptOwnership', [])
    assert.equal(await read(factory, 'owner', []), carol.address)
  })
})

test('only the owner of the test stablecoin mints it, and it has six decimals', async () => {
  const { ann, owner, chain, collateral, read, balance } = world
  await assertReverts(
    chain.send(ann, collateral, 'mint', [ann.address, 1n]),
    'OwnableUnauthorizedAccount',
  )
  const before = await balance(ann.address)
  await chain.send(owner, collateral, 'mint', [ann.address, 1n])
  assert.equal(await balance(ann.address), before + 1n)
  assert.equal(await read(collateral, 'decimals', []), 6)
})

test('the code of every contract is below the size limit of the chain', () => {
  for (const name of [
    'ConditionalTokens',
    'Settlement',
    'MarketFactory',
    'Market',
    'Multicall',
    'TestUSDC',
  ]) {
    const code: Hex = ours(name).deployedBytecode
    assert.ok(code.length / 2 - 1 <= 24_576, name)
  }
})
