/**
 * Tests markets from creation to redemption on UMA's real optimistic oracle. Checks exact balances at each step, and
 * every case in which a resolution is refused.
 */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { type Hex, keccak256, stringToHex, toFunctionSelector } from 'viem'
import { type Contract, ours } from '#devnet/artifact.ts'
import { type Deployer, deployOracle, type Oracle } from '#devnet/deploy.ts'
import { PROPOSE_RESOLUTION_TYPES, SETTLE_MARKET_TYPES, typeString } from '#domain/typed-data.ts'
import { marketAbi } from '../../contracts/artifacts/Market.abi.ts'
import { marketFactoryAbi } from '../../contracts/artifacts/MarketFactory.abi.ts'
import { hostileCollateralAbi } from '../../contracts/artifacts/test/HostileCollateral.abi.ts'
import { stubbornTokensAbi } from '../../contracts/artifacts/test/StubbornTokens.abi.ts'
import {
  assertReverts,
  eventsOf,
  MAX_UINT256,
  type Market,
  NO,
  SETTINGS,
  startWorld,
  UNIT,
  type World,
  YES,
  ZERO_BYTES32,
} from './support/world.ts'

const STAKE = 1_000n * UNIT
const BOND = SETTINGS.bond
const WINDOW = SETTINGS.disputeSeconds
const TRUE = 10n ** 18n

let world: World
let market: Market
let restore: (() => Promise<void>) | undefined

before(async () => {
  world = await startWorld()
  market = await world.createMarket()
  const { ann, bob, carol, relayer, fund, chain, collateral, oracle } = world
  await fund(ann, { collateral: STAKE })
  await fund(bob, { collateral: STAKE, shares: STAKE, market: market.id })
  await fund(carol, { collateral: STAKE })
  await fund(relayer, { collateral: STAKE })
  await chain.send(carol, collateral, 'approve', [oracle.address, MAX_UINT256])
})
after(() => world.chain.close())
beforeEach(async () => {
  await restore?.()
  restore = await world.chain.snapshot()
})

/** Makes a market in which Bob has sold Ann 100 YES at 0.40, and which has expired. */
async function tradedAndExpired(): Promise<void> {
  const { ann, bob, buy, sell, trade, chain } = world
  const terms = { price: 400_000n, size: 100n * UNIT }
  const verdict = await trade(await buy(ann, market.id, terms), await sell(bob, market.id, terms))
  assert.equal(verdict.settled, true)
  await chain.warpTo(market.expiration)
}

/** Proposes an outcome by a signature of `proposer`. The bond is taken by a permit, and the relayer pays the gas. */
async function propose(proposer: World['ann'], outcome: boolean, on: Market = market) {
  const { chain, relayer, signProposal, bondPermit } = world
  const proposal = await signProposal(proposer, on, outcome)
  const permit = await bondPermit(proposer, on)
  return chain.send(relayer, on, 'proposeResolution', [...proposal, permit])
}

async function settleBySignature(settler: World['ann'], outcome: number, on: Market = market) {
  const { chain, relayer, signSettlement } = world
  return chain.send(relayer, on, 'settleMarket', await signSettlement(settler, on, outcome))
}

const assertion = (on: Market = market) => world.read(on, 'assertion', [])

async function dispute(on: Market = market, by = world.carol, oracle: Contract = world.oracle) {
  const { id } = await assertion(on)
  return world.chain.send(by, oracle, 'disputeAssertion', [id, by.address])
}

/** Decides the disputed assertion of a market through a mock of the contract of UMA's voters. */
async function arbitrate(truth: boolean, on: Market = market, uma: Oracle = world) {
  const { chain, owner } = world
  const { id, assertionTime } = await assertion(on)
  const ancillary = await chain.publicClient.readContract({
    ...uma.oracle,
    functionName: 'stampAssertion',
    args: [id],
  })
  await chain.send(owner, uma.arbiter, 'pushPrice', [
    stringToHex('ASSERT_TRUTH', { size: 32 }),
    assertionTime,
    ancillary,
    truth ? TRUE : 0n,
  ])
}

async function redeem(who: World['ann']): Promise<bigint> {
  const { chain, relayer, conditionalTokens, balance, signRedemption } = world
  const before = await balance(who.address)
  const args = await signRedemption(who, market.id)
  await chain.send(relayer, conditionalTokens, 'redeemPositionsWithPermit', args)
  return (await balance(who.address)) - before
}

async function assertBalances(
  expected: Partial<Record<'ann' | 'bob' | 'carol' | 'relayer', bigint>>,
) {
  for (const [who, amount] of Object.entries(expected)) {
    const { address } = world[who as 'ann']
    assert.equal(await world.balance(address), amount, who)
  }
  assert.equal(await world.balance(market.address), 0n, 'the market keeps nothing')
  assert.equal(await world.balance(world.settlement.address), 0n)
}

describe('a market is created, traded and resolved by the oracle', () => {
  test('traders trade in a market and redeem their shares after its proposed outcome is settled', async () => {
    const { ann, bob, relayer, chain, oracle, conditionalTokens, balance, shares, read } = world
    await tradedAndExpired()
    await assertBalances({ ann: STAKE - 40n * UNIT, bob: STAKE + 40n * UNIT, carol: STAKE })
    assert.equal(await shares(ann.address, market.id, YES), 100n * UNIT)
    assert.equal(await shares(bob.address, market.id, YES), STAKE - 100n * UNIT)
    assert.equal(await shares(bob.address, market.id, NO), STAKE)
    assert.equal(await balance(conditionalTokens.address), STAKE)

    const proposed = await propose(ann, true)
    const { id, ...open } = await assertion()
    const now = await chain.now()
    assert.deepEqual(open, {
      proposer: ann.address,
      asserter: ann.address,
      outcome: true,
      disputed: false,
      assertionTime: now,
      expirationTime: now + WINDOW,
      bond: BOND,
    })
    assert.deepEqual(eventsOf(proposed, market), [
      {
        eventName: 'ResolutionProposed',
        args: {
          marketId: market.id,
          assertionId: id,
          proposer: ann.address,
          asserter: ann.address,
          outcome: true,
          bond: BOND,
          assertionTime: now,
          expirationTime: now + WINDOW,
        },
      },
    ])
    await assertBalances({ ann: STAKE - 40n * UNIT - BOND, bob: STAKE + 40n * UNIT })
    assert.equal(await balance(oracle.address), BOND)
    assert.equal(await read(market, 'resolved', []), false)
    await assertReverts(read(market, 'winningOutcome', []), 'NotResolved')

    await assertReverts(settleBySignature(bob, YES), 'Assertion not expired')
    await assertReverts(
      chain.send(
        relayer,
        conditionalTokens,
        'redeemPositionsWithPermit',
        await world.signRedemption(ann, market.id),
      ),
      'result for condition not received yet',
    )
    await chain.warp(WINDOW)
    await assertReverts(settleBySignature(bob, NO), 'OutcomeNotAsserted', [NO])
    const settled = await settleBySignature(bob, YES)
    assert.deepEqual(eventsOf(settled, market), [
      {
        eventName: 'MarketResolved',
        args: { marketId: market.id, assertionId: id, winningOutcome: YES },
      },
      {
        eventName: 'MarketSettled',
        args: { marketId: market.id, settler: bob.address, winningOutcome: YES },
      },
    ])
    assert.equal(await read(market, 'resolved', []), true)
    assert.equal(await read(market, 'winningOutcome', []), YES)
    await assertBalances({ ann: STAKE - 40n * UNIT, bob: STAKE + 40n * UNIT })
    assert.equal(await balance(oracle.address), 0n)

    assert.equal(await redeem(ann), 100n * UNIT)
    assert.equal(await redeem(bob), STAKE - 100n * UNIT)
    await assertBalances({ ann: STAKE + 60n * UNIT, bob: 2n * STAKE - 60n * UNIT })
    assert.equal(await balance(conditionalTokens.address), 0n)
  })

  test('if the oracle confirms a disputed outcome, the proposer receives half of the disputer’s bond', async () => {
    const { ann, bob, carol, chain, store, oracle, balance, read } = world
    await tradedAndExpired()
    await propose(ann, true)
    const disputed = await dispute()
    const { id } = await assertion()
    assert.deepEqual(eventsOf(disputed, market), [
      { eventName: 'ResolutionDisputed', args: { marketId: market.id, assertionId: id } },
    ])
    assert.equal((await assertion()).disputed, true)
    await assertBalances({ ann: STAKE - 40n * UNIT - BOND, carol: STAKE - BOND })
    assert.equal(await balance(oracle.address), 2n * BOND)

    // The dispute window passes while the voters have not answered: nobody can settle or propose.
    await chain.warp(WINDOW + 3n * 86_400n)
    await assert.rejects(settleBySignature(bob, YES))
    await assertReverts(propose(bob, false), 'AssertionActive', [id])
    await arbitrate(true)
    await settleBySignature(bob, YES)
    await assertBalances({
      ann: STAKE - 40n * UNIT + BOND / 2n,
      bob: STAKE + 40n * UNIT,
      carol: STAKE - BOND,
    })
    assert.equal(await balance(store.address), BOND / 2n)
    assert.equal(await read(market, 'winningOutcome', []), YES)
    assert.equal(await redeem(ann), 100n * UNIT)
    assert.equal(await redeem(bob), STAKE - 100n * UNIT)
    assert.equal(await redeem(carol), 0n)
  })

  test('if the oracle rejects a disputed outcome, another outcome can be proposed and settled', async () => {
    const { ann, bob, carol, relayer, chain, balance, read, store } = world
    await tradedAndExpired()
    await propose(ann, true)
    await dispute()
    const { id: first } = await assertion()
    await arbitrate(false)

    // The oracle has rejected YES, so a signature that settles the market to YES reverts and changes nothing.
    await assertReverts(settleBySignature(bob, YES), 'AssertionNotTrue', [first])
    assert.equal((await assertion()).id, first)
    const settled = await chain.send(relayer, market, 'settle', [])
    assert.deepEqual(eventsOf(settled, market), [
      { eventName: 'ResolutionOverturned', args: { marketId: market.id, assertionId: first } },
    ])
    assert.equal((await assertion()).id, ZERO_BYTES32)
    assert.equal(await read(market, 'resolved', []), false)
    await assertBalances({
      ann: STAKE - 40n * UNIT - BOND,
      bob: STAKE + 40n * UNIT,
      carol: STAKE + BOND / 2n,
    })
    assert.equal(await balance(store.address), BOND / 2n)

    await propose(bob, false)
    const { id: second } = await assertion()
    assert.notEqual(second, first)
    await chain.warp(WINDOW)
    await settleBySignature(carol, NO)
    assert.equal(await read(market, 'winningOutcome', []), NO)
    await assertBalances({
      ann: STAKE - 40n * UNIT - BOND,
      bob: STAKE + 40n * UNIT,
      carol: STAKE + BOND / 2n,
    })
    assert.equal(await redeem(ann), 0n)
    assert.equal(await redeem(bob), STAKE)
  })

  test('a market is resolved if a stranger settles its assertion directly at the oracle', async () => {
    const { ann, carol, chain, oracle, read } = world
    await tradedAndExpired()
    await propose(ann, false)
    await chain.warp(WINDOW)
    const { id } = await assertion()
    const receipt = await chain.send(carol, oracle, 'settleAssertion', [id])
    assert.equal(eventsOf(receipt, market)[0]?.eventName, 'MarketResolved')
    assert.equal(await read(market, 'winningOutcome', []), NO)
    await assertReverts(settleBySignature(ann, NO), 'AlreadyResolved', [NO])
    await assertReverts(chain.send(ann, market, 'settle', []), 'AlreadyResolved', [NO])
  })

  test('any account can propose an outcome with its own bond, and any account can settle it', async () => {
    const { bob, carol, chain, collateral, read } = world
    await tradedAndExpired()
    await chain.send(carol, collateral, 'approve', [market.address, BOND])
    await chain.send(carol, market, 'propose', [true])
    assert.equal((await assertion()).asserter, carol.address)
    await chain.warp(WINDOW)
    const receipt = await chain.send(bob, market, 'settle', [])
    assert.deepEqual(eventsOf(receipt, market).at(-1), {
      eventName: 'MarketSettled',
      args: { marketId: market.id, settler: bob.address, winningOutcome: YES },
    })
    assert.equal(await read(market, 'resolved', []), true)
    await assertBalances({ carol: STAKE })
  })
})

describe('an outcome can be proposed by a signature', () => {
  test('if the relayer pays a proposer’s bond, the relayer gets the bond back after the settlement', async () => {
    const { ann, relayer, chain, signProposal, bondPermit } = world
    await tradedAndExpired()
    const permit = await bondPermit(relayer, market)
    const proposal = await signProposal(ann, market, true)
    await chain.send(relayer, market, 'proposeResolution', [...proposal, permit])
    const open = await assertion()
    assert.deepEqual([open.proposer, open.asserter], [ann.address, relayer.address])
    await assertBalances({ ann: STAKE - 40n * UNIT, relayer: STAKE - BOND })
    await chain.warp(WINDOW)
    await settleBySignature(ann, YES)
    await assertBalances({ ann: STAKE - 40n * UNIT, relayer: STAKE })
  })

  test('a signed proposal succeeds although a stranger has already submitted the permit of its bond', async () => {
    const { ann, carol, relayer, chain, collateral, signProposal, usdcPermit } = world
    await tradedAndExpired()
    const permit = await usdcPermit(ann, market.address, BOND)
    const { deadline, v, r, s } = permit
    await chain.send(carol, collateral, 'permit', [
      ann.address,
      market.address,
      BOND,
      deadline,
      v,
      r,
      s,
    ])
    const proposal = await signProposal(ann, market, true)
    const bond = { payer: ann.address, deadline, v, r, s }
    await chain.send(relayer, market, 'proposeResolution', [...proposal, bond])
    assert.equal((await assertion()).asserter, ann.address)
  })

  test('a signed proposal cannot take its bond from an account other than the proposer or the submitter', async () => {
    const { ann, bob, relayer, chain, signProposal, bondPermit } = world
    await tradedAndExpired()
    const proposal = await signProposal(ann, market, true)
    const bobs = await bondPermit(bob, market)
    const submit = (bond: typeof bobs) =>
      chain.send(relayer, market, 'proposeResolution', [...proposal, bond])
    // Bob neither proposes nor calls.
    await assertReverts(submit(bobs), 'NotPayer', [bob.address])
    const broke = toFunctionSelector('ERC20InsufficientAllowance(address,uint256,uint256)')
    await assertReverts(submit({ ...bobs, payer: ann.address }), broke)
    await assertReverts(submit({ ...bobs, payer: relayer.address, v: 0 }), broke)
  })

  test('a proposal is refused before the market’s expiry, while another proposal is active, and after the resolution', async () => {
    const { ann, bob, chain } = world
    await assertReverts(propose(ann, true), 'NotExpired', [market.expiration])
    await tradedAndExpired()
    await assertReverts(chain.send(ann, market, 'settle', []), 'NoAssertion')
    await assertReverts(settleBySignature(ann, YES), 'NoAssertion')
    await propose(ann, true)
    const { id } = await assertion()
    await assertReverts(propose(bob, true), 'AssertionActive', [id])
    await assertReverts(propose(bob, false), 'AssertionActive', [id])
    await chain.warp(WINDOW)
    await assertReverts(propose(bob, false), 'AssertionActive', [id])
    await settleBySignature(bob, YES)
    await assertReverts(propose(bob, false), 'AlreadyResolved', [YES])
  })

  test('a signed proposal is refused if it is replayed, expired, changed or made for another market', async () => {
    const { ann, bob, relayer, chain, collateral, signProposal, createMarket } = world
    const other = await createMarket()
    await tradedAndExpired()
    await chain.send(relayer, collateral, 'approve', [market.address, STAKE])
    type Args = Awaited<ReturnType<typeof signProposal>>
    const nothing = { deadline: 0n, v: 0, r: ZERO_BYTES32, s: ZERO_BYTES32 }
    const submit = (args: Args) =>
      chain.send(relayer, market, 'proposeResolution', [
        ...args,
        { payer: relayer.address, ...nothing },
      ])
    const good = await signProposal(ann, market, true)
    await assertReverts(
      submit([bob.address, ...good.slice(1)] as unknown as Args),
      'SignerMismatch',
    )
    await assertReverts(submit(good.with(1, false) as unknown as Args), 'SignerMismatch')
    await assertReverts(submit(good.with(2, good[2] + 1n) as unknown as Args), 'SignerMismatch')
    const elsewhere = await signProposal(ann, market, true, { market: other.address })
    await assertReverts(submit(elsewhere), 'SignerMismatch')
    const late = (await chain.now()) - 1n
    await assertReverts(
      submit(await signProposal(ann, market, true, { deadline: late })),
      'SignatureExpired',
      [late],
    )
    await submit(good)
    await dispute()
    await arbitrate(false)
    await chain.send(relayer, market, 'settle', [])
    // Proposals are possible again, but not with the same signature.
    await assertReverts(submit(good), 'SignerMismatch')
  })

  test('the claim at the oracle contains the market’s id and texts and the proposed answer', async () => {
    const { read } = world
    const claim = Buffer.from((await read(market, 'claim', [true])).slice(2), 'hex').toString()
    const { question, description } = await read(market, 'terms', [])
    assert.equal(
      claim,
      `The Sibyl market ${market.id} asks: ${question} Description: ${description} ` +
        `The market expired at Unix time ${market.expiration}. The answer is YES.`,
    )
  })

  test('if the oracle’s minimum bond is higher than the market’s bond, the minimum applies', async () => {
    const { owner, chain, store, oracle, collateral, read } = world
    assert.equal(await read(market, 'bond', []), BOND)
    await chain.send(owner, store, 'setFinalFee', [collateral.address, { rawValue: BOND }])
    const identifier = stringToHex('ASSERT_TRUTH', { size: 32 })
    await chain.send(owner, oracle, 'syncUmaParams', [identifier, collateral.address])
    assert.equal(await read(market, 'bond', []), 2n * BOND)
  })
})

describe('a market can be settled by a signature', () => {
  test('a signed settlement of a market is refused when it is replayed, expired or changed', async () => {
    const { ann, bob, relayer, chain, signSettlement } = world
    await tradedAndExpired()
    await propose(ann, true)
    await chain.warp(WINDOW)
    type Args = Awaited<ReturnType<typeof signSettlement>>
    const submit = (args: Args) => chain.send(relayer, market, 'settleMarket', args)
    const good = await signSettlement(ann, market, YES)
    await assertReverts(submit(good.with(0, bob.address) as unknown as Args), 'SignerMismatch')
    await assertReverts(submit(good.with(1, NO) as unknown as Args), 'SignerMismatch')
    const late = (await chain.now()) - 1n
    await assertReverts(
      submit(await signSettlement(ann, market, YES, { deadline: late })),
      'SignatureExpired',
      [late],
    )
    await submit(good)
    await assertReverts(submit(good), 'SignerMismatch')
  })
})

describe('a market acts only on callbacks of the oracle about its own assertions', () => {
  test('only the oracle may call a market’s callbacks', async () => {
    const { ann, chain } = world
    await tradedAndExpired()
    await propose(ann, true)
    const { id } = await assertion()
    await assertReverts(
      chain.send(ann, market, 'assertionResolvedCallback', [id, true]),
      'NotOracle',
      [ann.address],
    )
    await assertReverts(chain.send(ann, market, 'assertionDisputedCallback', [id]), 'NotOracle', [
      ann.address,
    ])
  })

  test('a market ignores oracle callbacks about assertions that other accounts made', async () => {
    const { ann, carol, chain, oracle, collateral, read } = world
    await tradedAndExpired()
    await propose(ann, true)
    const { id: own } = await assertion()
    const foreign = async (liveness: bigint) => {
      const args = [
        stringToHex('The answer is NO.'),
        carol.address,
        market.address,
        `0x${'0'.repeat(40)}`,
        liveness,
        collateral.address,
        BOND / 2n,
        stringToHex('ASSERT_TRUTH', { size: 32 }),
        ZERO_BYTES32,
      ]
      const receipt = await chain.send(carol, oracle, 'assertTruth', args)
      const made = eventsOf(receipt, oracle).at(-1)?.args as unknown as { assertionId: Hex }
      return made.assertionId
    }
    const short = await foreign(10n)
    const settledLater = await foreign(20n)
    await chain.warp(15)
    const receipt = await chain.send(carol, oracle, 'settleAssertion', [short])
    assert.deepEqual(eventsOf(receipt, market), [])
    const disputed = await chain.send(carol, oracle, 'disputeAssertion', [
      settledLater,
      carol.address,
    ])
    assert.deepEqual(eventsOf(disputed, market), [])
    assert.equal((await assertion()).id, own)
    assert.equal((await assertion()).disputed, false)
    assert.equal(await read(market, 'resolved', []), false)
  })

  test('if the conditional tokens refuse the payout report, the market still resolves and can repeat the report later', async () => {
    const { owner, chain, oracle, collateral, quickOperator, maker, read, fund, ann } = world
    const tokens: Contract<typeof stubbornTokensAbi> = {
      address: await chain.deploy(owner, ours('test/StubbornTokens'), []),
      abi: stubbornTokensAbi,
    }
    const factory: Contract<typeof marketFactoryAbi> = {
      address: await chain.deploy(owner, ours('MarketFactory'), [
        collateral.address,
        tokens.address,
        oracle.address,
        WINDOW,
        BOND,
        owner.address,
        quickOperator.address,
        maker.address,
      ]),
      abi: marketFactoryAbi,
    }
    const expiration = (await chain.now()) + 100n
    const terms = ['Will it work?', '', 3, expiration] as const
    const [address, id] = await read(factory, 'predictMarket', [maker.address, ...terms])
    await chain.send(maker, factory, 'createMarket', terms)
    const stubborn: Market = { address, abi: marketAbi, id, expiration }
    await chain.warp(100)
    await fund(ann, { collateral: BOND })
    await chain.send(ann, collateral, 'approve', [address, BOND])
    await chain.send(ann, stubborn, 'propose', [false])
    await chain.warp(WINDOW)
    await assertReverts(chain.send(ann, stubborn, 'reportPayouts', []), 'NotResolved')
    const receipt = await chain.send(ann, stubborn, 'settle', [])
    assert.deepEqual(
      eventsOf(receipt, stubborn).map(({ eventName }) => eventName),
      ['MarketResolved', 'PayoutReportFailed', 'MarketSettled'],
    )
    assert.equal(await read(stubborn, 'winningOutcome', []), NO)
    await assertReverts(chain.send(ann, stubborn, 'reportPayouts', []), 'not now')
    await chain.send(ann, tokens, 'relent', [])
    await chain.send(ann, stubborn, 'reportPayouts', [])
    assert.deepEqual(await read(tokens, 'reported', []), [0n, 1n])
  })
})

describe('a market can abandon an assertion that cannot be settled', () => {
  /** Returns an oracle and a market with a stablecoin that can block accounts. */
  async function blockable() {
    const { owner, chain, ann, carol, quickOperator, maker, conditionalTokens, read } = world
    const token: Contract<typeof hostileCollateralAbi> = {
      address: await chain.deploy(owner, ours('test/HostileCollateral'), []),
      abi: hostileCollateralAbi,
    }
    const uma = await deployOracle(
      chain as unknown as Deployer,
      { owner, disputeSeconds: WINDOW, finalFee: SETTINGS.finalFee },
      token.address,
    )
    const factory: Contract<typeof marketFactoryAbi> = {
      address: await chain.deploy(owner, ours('MarketFactory'), [
        token.address,
        conditionalTokens.address,
        uma.oracle.address,
        WINDOW,
        BOND,
        owner.address,
        quickOperator.address,
        maker.address,
      ]),
      abi: marketFactoryAbi,
    }
    const expiration = (await chain.now()) + 100n
    const terms = ['Will it be blocked?', '', 3, expiration] as const
    const [address, id] = await read(factory, 'predictMarket', [maker.address, ...terms])
    await chain.send(maker, factory, 'createMarket', terms)
    const stuck: Market = { address, abi: marketAbi, id, expiration }
    for (const who of [ann, carol]) {
      await chain.send(owner, token, 'mint', [who.address, 10n * BOND])
      await chain.send(who, token, 'approve', [address, MAX_UINT256])
      await chain.send(who, token, 'approve', [uma.oracle.address, MAX_UINT256])
    }
    await chain.warp(100)
    return { token, uma, stuck }
  }
  const ABANDON = 14n * 86_400n

  test('if the bond of an assertion cannot be paid out, another outcome can be proposed after 14 days', async () => {
    const { chain, owner, ann, carol, read } = world
    const { token, uma, stuck } = await blockable()
    await chain.send(ann, stuck, 'propose', [true])
    const { id: first } = await assertion(stuck)
    await dispute(stuck, carol, uma.oracle)
    await chain.send(owner, token, 'setBlocked', [carol.address, true])
    await arbitrate(false, stuck, uma)
    await assertReverts(chain.send(ann, stuck, 'settle', []), 'account is blocked')
    await assertReverts(chain.send(ann, stuck, 'propose', [false]), 'AssertionActive', [first])
    await chain.warp(WINDOW + ABANDON)
    const receipt = await chain.send(ann, stuck, 'propose', [false])
    assert.deepEqual(
      eventsOf(receipt, stuck).map(({ eventName }) => eventName),
      ['ResolutionAbandoned', 'ResolutionProposed'],
    )
    // The oracle can now settle the first assertion, which the market has abandoned. The market ignores the result.
    await chain.send(owner, token, 'setBlocked', [carol.address, false])
    const late = await chain.send(ann, uma.oracle, 'settleAssertion', [first])
    assert.deepEqual(eventsOf(late, stuck), [])
    await chain.warp(WINDOW)
    await chain.send(ann, stuck, 'settle', [])
    assert.equal(await read(stuck, 'winningOutcome', []), NO)
  })

  test('a market does not abandon an assertion that can be settled', async () => {
    const { chain, ann, carol, read } = world
    const { uma, stuck } = await blockable()
    await chain.send(ann, stuck, 'propose', [true])
    await chain.warp(WINDOW + ABANDON)
    // A new proposal first settles the old assertion. Nobody has disputed the old assertion, so settling it would
    // resolve the market to YES. Therefore the new proposal reverts.
    await assertReverts(chain.send(carol, stuck, 'propose', [false]), 'AlreadyResolved', [YES])
    await chain.send(carol, stuck, 'settle', [])
    assert.equal(await read(stuck, 'winningOutcome', []), YES)

    const { uma: second, stuck: other } = await blockable()
    assert.ok(uma)
    await chain.send(ann, other, 'propose', [true])
    await dispute(other, carol, second.oracle)
    await arbitrate(false, other, second)
    await chain.warp(WINDOW + ABANDON)
    // The oracle has rejected the old assertion, so settling it does not resolve the market. The new proposal settles
    // the old assertion and is accepted.
    const receipt = await chain.send(carol, other, 'propose', [false])
    assert.deepEqual(
      eventsOf(receipt, other).map(({ eventName }) => eventName),
      ['ResolutionOverturned', 'ResolutionProposed'],
    )
  })
})

test('the type hashes of a market contract equal those of the published EIP-712 types', async () => {
  const { read } = world
  const hash = (text: string) => keccak256(stringToHex(text))
  assert.equal(
    await read(market, 'PROPOSE_RESOLUTION_TYPEHASH', []),
    hash(typeString('ProposeResolution', PROPOSE_RESOLUTION_TYPES)),
  )
  assert.equal(
    await read(market, 'SETTLE_MARKET_TYPEHASH', []),
    hash(typeString('SettleMarket', SETTLE_MARKET_TYPES)),
  )
})
