/**
 * Compares our conditional tokens with the original ones on one chain: the same calls must give the same ids, balances,
 * events and reverts. Then tests what the original does not have: operations by signature.
 */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import {
  type Abi,
  BaseError,
  ContractFunctionRevertedError,
  decodeEventLog,
  encodeFunctionData,
  type Hex,
  keccak256,
  numberToHex,
  stringToHex,
  type TransactionReceipt,
} from 'viem'
import { type Contract, ours } from '#devnet/artifact.ts'
import { APPROVAL_FOR_ALL_TYPES, REDEEM_POSITIONS_TYPES, typeString } from '#domain/typed-data.ts'
import { gnosis } from './support/artifact.ts'
import {
  assertReverts,
  eventsOf,
  MAX_UINT256,
  startWorld,
  UNIT,
  type World,
  ZERO,
  ZERO_BYTES32,
} from './support/world.ts'

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

type Account = World['ann']
type Result = { reverted: string } | { events: { eventName: string; args: unknown }[] }

/** Returns a generator of pseudorandom numbers (mulberry32). With the same seed, a failing run can be repeated. */
function seeded(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}

/** Deploys both implementations; returns functions that call both. */
async function twins() {
  const { chain, owner } = world
  const original = gnosis('ConditionalTokens')
  const theirs: Contract = {
    address: await chain.deploy(owner, original, []),
    abi: original.abi,
  }
  // The tests call our contract through the ABI of the original. So our contract must support every function of this
  // ABI.
  const mine: Contract = { address: world.conditionalTokens.address, abi: original.abi }
  const free = await chain.deploy(owner, ours('test/FreeCollateral'), [])

  const run = async (from: Account, contract: Contract, name: string, args: unknown[]) => {
    try {
      const receipt = (await chain.send(
        from,
        contract as Contract<Abi>,
        name as never,
        args as never,
      )) as TransactionReceipt
      return { events: tokenEvents(receipt, contract) }
    } catch (error) {
      return { reverted: reasonOf(error) }
    }
  }
  return {
    mine,
    theirs,
    free,
    /** Sends the call to both contracts and asserts that their results are equal. Returns the result. */
    async both(from: Account, name: string, args: unknown[]): Promise<Result> {
      const there = await run(from, theirs, name, args)
      const here = await run(from, mine, name, args)
      assert.deepEqual(here, there, `${name}(${args.join()})`)
      return here
    },
    async same(name: string, args: unknown[]): Promise<unknown> {
      const call = async (contract: Contract) => {
        try {
          return {
            value: await chain.publicClient.readContract({
              ...contract,
              functionName: name,
              args,
            }),
          }
        } catch (error) {
          return { reverted: reasonOf(error) }
        }
      }
      const there = await call(theirs)
      const here = await call(mine)
      assert.deepEqual(here, there, `${name}(${args.join()})`)
      return 'value' in here ? here.value : undefined
    },
  }
}

function tokenEvents(receipt: TransactionReceipt, contract: Contract) {
  return receipt.logs
    .filter((log) => log.address.toLowerCase() === contract.address.toLowerCase())
    .map((log) => {
      const { eventName, args } = decodeEventLog({ abi: contract.abi, ...log })
      return { eventName: eventName ?? '', args }
    })
}

/** Returns the reason of a revert; `revert` if there is none. */
function reasonOf(error: unknown): string {
  const revert =
    error instanceof BaseError
      ? error.walk((inner) => inner instanceof ContractFunctionRevertedError)
      : undefined
  if (!(revert instanceof ContractFunctionRevertedError)) throw error
  // For a revert without a reason, the node makes up a text. It depends on the compiler's opcode and is not compared.
  const silent = /without a reason|invalid opcode/.test(revert.reason ?? '')
  return silent ? 'revert' : (revert.reason ?? revert.signature ?? 'revert')
}

describe('our conditional tokens contract behaves like the original contract', () => {
  test('our conditional tokens compute the same ids as the original contract, and refuse the same invalid parent collections', async () => {
    const { same } = await twins()
    const random = seeded(1)
    const parents: Hex[] = [ZERO_BYTES32]
    for (let i = 0; i < 60; i += 1) {
      const hash = keccak256(numberToHex(i, { size: 32 }))
      const slots = 2 + random(255)
      const oracle: Hex = `0x${hash.slice(2, 42)}`
      const condition = await same('getConditionId', [oracle, hash, BigInt(slots)])
      const parent = parents[random(parents.length)]
      const collection = await same('getCollectionId', [
        parent,
        condition,
        BigInt(1 + random(2 ** 30)),
      ])
      parents.push(collection as Hex)
      await same('getPositionId', [oracle, collection])
      // About half of all hashes are valid ids of a parent collection. For all other hashes, both contracts must
      // revert.
      await same('getCollectionId', [hash, condition, 1n])
    }
    await same('getCollectionId', [`0x${'ff'.repeat(32)}`, ZERO_BYTES32, 1n])
    await same('getCollectionId', [parents[1], ZERO_BYTES32, MAX_UINT256])
    // A collection id plus its negation is the point at infinity, for which both contracts return zero.
    const own = BigInt((await same('getCollectionId', [ZERO_BYTES32, parents[1], 1n])) as Hex)
    const negated = numberToHex(own ^ (1n << 254n), { size: 32 })
    assert.equal(await same('getCollectionId', [negated, parents[1], 1n]), ZERO_BYTES32)
  })

  test('a fixed series of calls gives the same events, balances and reverts as the original contract', async () => {
    const { chain, owner, ann, bob, collateral } = world
    const { both, same, mine, theirs, free } = await twins()
    const question = keccak256('0x01')
    const condition = (await same('getConditionId', [ann.address, question, 3n])) as Hex
    const other = (await same('getConditionId', [ann.address, question, 2n])) as Hex
    const usdc = collateral.address
    for (const trader of [ann, bob]) {
      await chain.send(owner, collateral, 'mint', [trader.address, 3_000n])
      await chain.send(trader, collateral, 'approve', [mine.address, 1_500n])
      await chain.send(trader, collateral, 'approve', [theirs.address, 1_500n])
    }
    const expectRevert = async (reason: string, from: Account, name: string, args: unknown[]) => {
      const result = await both(from, name, args)
      assert.deepEqual(result, { reverted: reason })
    }
    const expectOk = async (from: Account, name: string, args: unknown[]) => {
      const result = await both(from, name, args)
      assert.ok('events' in result, 'reverted' in result ? result.reverted : '')
      return result.events.map(({ eventName }) => eventName)
    }
    const top = (partition: bigint[], amount: bigint, id = condition) => [
      usdc,
      ZERO_BYTES32,
      id,
      partition,
      amount,
    ]
    const many = 'there should be more than one outcome slot'

    await expectRevert('too many outcome slots', ann, 'prepareCondition', [
      ann.address,
      question,
      257n,
    ])
    await expectRevert(many, ann, 'prepareCondition', [ann.address, question, 1n])
    await expectRevert('condition not prepared yet', ann, 'splitPosition', top([1n, 2n], 1n))
    await expectRevert('condition not prepared yet', ann, 'mergePositions', top([1n, 2n], 1n))
    await expectRevert('condition not prepared or found', ann, 'reportPayouts', [
      question,
      [1n, 0n],
    ])
    await expectOk(bob, 'prepareCondition', [ann.address, question, 3n])
    await expectOk(bob, 'prepareCondition', [ann.address, question, 2n])
    await expectRevert('condition already prepared', bob, 'prepareCondition', [
      ann.address,
      question,
      3n,
    ])
    await same('getOutcomeSlotCount', [condition])

    await expectRevert('got empty or singleton partition', ann, 'splitPosition', top([], 1n))
    await expectRevert('got empty or singleton partition', ann, 'splitPosition', top([7n], 1n))
    await expectRevert('got invalid index set', ann, 'splitPosition', top([0n, 7n], 1n))
    await expectRevert('got invalid index set', ann, 'splitPosition', top([1n, 8n], 1n))
    await expectRevert('partition not disjoint', ann, 'splitPosition', top([1n, 3n], 1n))
    assert.deepEqual(await expectOk(ann, 'splitPosition', top([1n, 6n], 1_000n)), [
      'TransferBatch',
      'PositionSplit',
    ])
    // The amount exceeds the allowance. Both contracts revert with the stablecoin's reason.
    const short = await both(ann, 'splitPosition', top([1n, 6n], 501n))
    assert.ok('reverted' in short)
    assert.deepEqual(await expectOk(ann, 'splitPosition', top([2n, 4n], 400n)), [
      'TransferSingle',
      'TransferBatch',
      'PositionSplit',
    ])
    await expectRevert('SafeMath: subtraction overflow', ann, 'splitPosition', top([2n, 4n], 601n))
    await expectOk(ann, 'mergePositions', top([2n, 4n], 100n))
    await expectOk(ann, 'mergePositions', top([1n, 6n], 300n))
    await expectRevert('SafeMath: subtraction overflow', ann, 'mergePositions', top([1n, 6n], 701n))

    // One of the three outcomes is split again on the other condition (a nested position).
    const parent = (await same('getCollectionId', [ZERO_BYTES32, condition, 1n])) as Hex
    const nested = (partition: bigint[], amount: bigint) => [usdc, parent, other, partition, amount]
    assert.deepEqual(await expectOk(ann, 'splitPosition', nested([1n, 2n], 200n)), [
      'TransferSingle',
      'TransferBatch',
      'PositionSplit',
    ])
    await expectOk(ann, 'mergePositions', nested([1n, 2n], 50n))
    await expectRevert('invalid parent collection ID', ann, 'splitPosition', [
      usdc,
      await noPoint(same),
      other,
      [1n, 2n],
      1n,
    ])

    // Transfers and approvals.
    const positions = await Promise.all(
      [1n, 2n, 4n, 6n].map(async (set) =>
        same('getPositionId', [
          usdc,
          await same('getCollectionId', [ZERO_BYTES32, condition, set]),
        ]),
      ),
    )
    const [first, second] = positions
    const need = 'ERC1155: need operator approval for 3rd party transfers.'
    await expectRevert(need, bob, 'safeTransferFrom', [ann.address, bob.address, first, 1n, '0x'])
    await expectRevert(need, bob, 'safeBatchTransferFrom', [
      ann.address,
      bob.address,
      [first],
      [1n],
      '0x',
    ])
    await expectOk(ann, 'setApprovalForAll', [bob.address, true])
    await same('isApprovedForAll', [ann.address, bob.address])
    await expectOk(bob, 'safeTransferFrom', [ann.address, bob.address, first, 30n, '0x1234'])
    assert.deepEqual(
      await expectOk(bob, 'safeBatchTransferFrom', [ann.address, bob.address, [first], [5n], '0x']),
      ['TransferBatch'],
    )
    await expectOk(bob, 'safeBatchTransferFrom', [
      ann.address,
      bob.address,
      [first, second],
      [5n, 7n],
      '0x',
    ])
    await expectOk(ann, 'safeTransferFrom', [ann.address, ann.address, first, 5n, '0x'])
    const nowhere = 'ERC1155: target address must be non-zero'
    await expectRevert(nowhere, ann, 'safeTransferFrom', [ann.address, ZERO, first, 1n, '0x'])
    await expectRevert(nowhere, ann, 'safeBatchTransferFrom', [ann.address, ZERO, [], [], '0x'])
    await expectRevert(
      'ERC1155: IDs and values must have same lengths',
      ann,
      'safeBatchTransferFrom',
      [ann.address, bob.address, [first], [], '0x'],
    )
    await expectRevert('SafeMath: subtraction overflow', bob, 'safeTransferFrom', [
      bob.address,
      ann.address,
      second,
      8n,
      '0x',
    ])
    // The recipient is a contract that does not accept tokens.
    const refused = await both(ann, 'safeTransferFrom', [ann.address, usdc, first, 1n, '0x'])
    assert.ok('reverted' in refused)
    await same('balanceOf', [ZERO, first])
    await same('balanceOfBatch', [
      [ann.address, ZERO],
      [first, first],
    ])
    await same('balanceOfBatch', [[ann.address], []])
    for (const id of ['0xd9b67a26', '0x01ffc9a7', '0x0e89341c', '0xffffffff']) {
      await same('supportsInterface', [id])
    }

    // Resolution and redemption.
    const redeem = (sets: bigint[], id = condition, parentId: Hex = ZERO_BYTES32) => [
      usdc,
      parentId,
      id,
      sets,
    ]
    await expectRevert(
      'result for condition not received yet',
      ann,
      'redeemPositions',
      redeem([1n]),
    )
    await expectRevert(many, ann, 'reportPayouts', [question, [1n]])
    await expectRevert('payout is all zeroes', ann, 'reportPayouts', [question, [0n, 0n, 0n]])
    await expectRevert('SafeMath: addition overflow', ann, 'reportPayouts', [
      question,
      [MAX_UINT256, 1n, 0n],
    ])
    await expectRevert('condition not prepared or found', bob, 'reportPayouts', [
      question,
      [1n, 0n],
    ])
    await expectOk(ann, 'reportPayouts', [question, [1n, 2n, 4n]])
    await expectRevert('payout denominator already set', ann, 'reportPayouts', [
      question,
      [1n, 0n, 0n],
    ])
    await expectOk(ann, 'reportPayouts', [question, [3n, 5n]])
    await same('payoutDenominator', [condition])
    await same('payoutNumerators', [condition, 2n])
    await same('payoutNumerators', [condition, 3n])
    await expectRevert('got invalid index set', ann, 'redeemPositions', redeem([7n]))
    await expectRevert('got invalid index set', ann, 'redeemPositions', redeem([0n]))
    await expectOk(ann, 'redeemPositions', redeem([1n, 2n], other, parent))
    await expectOk(ann, 'redeemPositions', redeem([1n, 2n, 2n, 6n]))
    await expectOk(ann, 'redeemPositions', redeem([1n]))
    await expectOk(bob, 'redeemPositions', redeem([1n, 2n, 4n, 6n]))
    for (const who of [ann, bob]) {
      for (const id of positions) await same('balanceOf', [who.address, id])
    }
    assert.equal(await world.balance(mine.address), await world.balance(theirs.address))

    // A condition with 256 outcomes, and amounts near the maximum of the type.
    const wide = (await same('getConditionId', [bob.address, question, 256n])) as Hex
    await expectOk(bob, 'prepareCondition', [bob.address, question, 256n])
    const halves = [2n ** 128n - 1n, MAX_UINT256 ^ (2n ** 128n - 1n)]
    const big = [free, ZERO_BYTES32, wide, halves, MAX_UINT256]
    await expectOk(ann, 'splitPosition', big)
    await expectRevert('SafeMath: addition overflow', ann, 'splitPosition', [
      free,
      ZERO_BYTES32,
      wide,
      halves,
      1n,
    ])
    await expectRevert('got invalid index set', ann, 'splitPosition', [
      free,
      ZERO_BYTES32,
      wide,
      [1n, MAX_UINT256],
      1n,
    ])
    await expectOk(bob, 'reportPayouts', [question, Array<bigint>(256).fill(2n)])
    await expectRevert('SafeMath: multiplication overflow', ann, 'redeemPositions', [
      free,
      ZERO_BYTES32,
      wide,
      halves,
    ])
  })

  test('random calls give the same events, balances and reverts as the original contract', async () => {
    const { both, same, free } = await twins()
    const seed = Number(process.env.SIBYL_TEST_SEED ?? 20_260)
    const random = seeded(seed)
    const { ann, bob, carol } = world
    const people = [ann, bob, carol]
    const pick = <T>(list: readonly T[]): T => list[random(list.length)]!
    const questions = [1, 2].map((n) => keccak256(numberToHex(n, { size: 32 })))
    const conditions: { id: Hex; oracle: Account; question: Hex; slots: number }[] = []
    for (const question of questions) {
      for (const slots of [2, 4]) {
        const id = (await same('getConditionId', [ann.address, question, BigInt(slots)])) as Hex
        conditions.push({ id, oracle: ann, question, slots })
      }
    }
    const parents: Hex[] = [ZERO_BYTES32, ZERO_BYTES32]
    for (const { id } of conditions) {
      parents.push((await same('getCollectionId', [ZERO_BYTES32, id, 1n])) as Hex)
    }
    for (const { oracle, question, slots } of conditions.slice(1)) {
      await both(ann, 'prepareCondition', [oracle.address, question, BigInt(slots)])
    }
    const positions = new Set<bigint>()
    const partitions = [[1n, 2n], [3n, 12n], [1n, 2n, 12n], [4n, 8n], [1n, 14n], [1n, 1n], [2n]]
    let succeeded = 0
    let reverted = 0
    for (let step = 0; step < 400; step += 1) {
      const who = pick(people)
      const { id, oracle, question, slots } = pick(conditions)
      const parent = pick(parents)
      const partition = pick(partitions)
      const amount = BigInt(random(100))
      const kind = random(12)
      let result: Result
      if (kind === 0) {
        result = await both(who, 'prepareCondition', [oracle.address, question, BigInt(slots)])
      } else if (kind === 1 && step > 150) {
        const payouts = Array.from({ length: slots }, () => BigInt(random(3)))
        result = await both(random(2) === 0 ? who : oracle, 'reportPayouts', [question, payouts])
      } else if (kind < 6) {
        result = await both(who, 'splitPosition', [free, parent, id, partition, amount])
      } else if (kind < 8) {
        result = await both(who, 'mergePositions', [free, parent, id, partition, amount])
      } else if (kind < 10) {
        const token = pick([...positions, 1n])
        result = await both(who, 'safeTransferFrom', [
          random(4) === 0 ? pick(people).address : who.address,
          pick(people).address,
          token,
          amount / 2n,
          '0x',
        ])
      } else if (kind === 10) {
        result = await both(who, 'setApprovalForAll', [pick(people).address, random(2) === 0])
      } else {
        result = await both(who, 'redeemPositions', [free, parent, id, partition])
      }
      if ('events' in result) {
        succeeded += 1
        for (const { eventName, args } of result.events) {
          const { ids } = args as { ids?: bigint[] }
          if (eventName === 'TransferBatch') for (const token of ids ?? []) positions.add(token)
        }
      } else reverted += 1
    }
    assert.ok(succeeded > 80 && reverted > 80, `${succeeded} and ${reverted}, seed ${seed}`)
    for (const who of people) {
      for (const token of positions) await same('balanceOf', [who.address, token])
    }
  })
})

describe('an owner of outcome tokens can approve an operator by a signature', () => {
  test("any account can submit the owner's signed approval or revocation", async () => {
    const { ann, relayer, chain, settlement, conditionalTokens, read, signApproval } = world
    for (const approved of [true, false]) {
      const { deadline, v, r, s } = await signApproval(ann, settlement.address, approved)
      const receipt = await chain.send(relayer, conditionalTokens, 'setApprovalForAllWithPermit', [
        ann.address,
        settlement.address,
        approved,
        deadline,
        v,
        r,
        s,
      ])
      assert.deepEqual(eventsOf(receipt, conditionalTokens), [
        {
          eventName: 'ApprovalForAll',
          args: { account: ann.address, operator: settlement.address, approved },
        },
      ])
      assert.equal(
        await read(conditionalTokens, 'isApprovedForAll', [ann.address, settlement.address]),
        approved,
      )
    }
    assert.equal(await read(conditionalTokens, 'nonces', [ann.address]), 2n)
  })

  test('a signed approval is refused if it is replayed, expired, changed or made for another chain or contract', async () => {
    const { ann, bob, relayer, chain, settlement, conditionalTokens, collateral, signApproval } =
      world
    type Signed = Awaited<ReturnType<typeof signApproval>>
    const submit = ({ deadline, v, r, s }: Signed, approved = true, owner: Hex = ann.address) =>
      chain.send(relayer, conditionalTokens, 'setApprovalForAllWithPermit', [
        owner,
        settlement.address,
        approved,
        deadline,
        v,
        r,
        s,
      ])
    const good = await signApproval(ann, settlement.address, true)
    await assertReverts(submit(good, false), 'PermitSignerMismatch')
    await assertReverts(submit(good, true, bob.address), 'PermitSignerMismatch')
    await assertReverts(submit({ ...good, deadline: good.deadline + 1n }), 'PermitSignerMismatch')
    await assertReverts(submit({ ...good, v: 29 }), 'PermitSignerMismatch', [ZERO, ann.address])
    await assertReverts(submit({ ...good, v: 29 }, true, ZERO), 'PermitSignerMismatch')
    const sign = (overrides: Parameters<typeof signApproval>[3]) =>
      signApproval(ann, settlement.address, true, overrides)
    await assertReverts(submit(await sign({ chainId: 1 })), 'PermitSignerMismatch')
    await assertReverts(
      submit(await sign({ contract: collateral.address })),
      'PermitSignerMismatch',
    )
    await assertReverts(submit(await sign({ nonce: 1n })), 'PermitSignerMismatch')
    const late = (await chain.now()) - 1n
    await assertReverts(submit(await sign({ deadline: late })), 'PermitExpired', [late])
    await submit(good)
    await assertReverts(submit(good), 'PermitSignerMismatch')
  })
})

describe('an owner of outcome tokens can redeem them by a signature', () => {
  /** Returns a condition that is resolved to YES. Ann has 100 shares of each outcome. */
  async function resolved(): Promise<Hex> {
    const { owner, ann, chain, conditionalTokens, fund, read } = world
    const question = keccak256(stringToHex(`question ${await chain.now()}`))
    const condition = await read(conditionalTokens, 'getConditionId', [owner.address, question, 2n])
    await chain.send(owner, conditionalTokens, 'prepareCondition', [owner.address, question, 2n])
    await fund(ann, { shares: 100n * UNIT, market: condition })
    await chain.send(owner, conditionalTokens, 'reportPayouts', [question, [1n, 0n]])
    return condition
  }

  test('a signed redemption pays the owner and burns the owner’s tokens, and the owner pays no gas', async () => {
    const { ann, relayer, chain, conditionalTokens, collateral, balance, shares } = world
    const condition = await resolved()
    const before = await balance(ann.address)
    const ether = await chain.publicClient.getBalance({ address: ann.address })
    const receipt = await chain.send(
      relayer,
      conditionalTokens,
      'redeemPositionsWithPermit',
      await world.signRedemption(ann, condition),
    )
    assert.deepEqual(eventsOf(receipt, conditionalTokens).at(-1), {
      eventName: 'PayoutRedemption',
      args: {
        redeemer: ann.address,
        collateralToken: collateral.address,
        parentCollectionId: ZERO_BYTES32,
        conditionId: condition,
        indexSets: [1n, 2n],
        payout: 100n * UNIT,
      },
    })
    assert.equal(await balance(ann.address), before + 100n * UNIT)
    assert.equal(await balance(relayer.address), 0n)
    assert.equal(await shares(ann.address, condition, 0), 0n)
    assert.equal(await shares(ann.address, condition, 1), 0n)
    assert.equal(await chain.publicClient.getBalance({ address: ann.address }), ether)
  })

  test('a signed redemption is refused if it is replayed, expired or changed', async () => {
    const { ann, bob, relayer, chain, conditionalTokens, signRedemption } = world
    const condition = await resolved()
    const submit = (args: Awaited<ReturnType<typeof signRedemption>>) =>
      chain.send(relayer, conditionalTokens, 'redeemPositionsWithPermit', args)
    const good = await signRedemption(ann, condition)
    const changed: [number, unknown][] = [
      [0, bob.address],
      [1, bob.address],
      [2, condition],
      [3, ZERO_BYTES32],
      [4, [1n]],
      [4, [2n, 1n]],
      [5, good[5] + 1n],
    ]
    for (const [index, value] of changed) {
      const args = [...good].with(index, value as never) as unknown as typeof good
      await assertReverts(submit(args), 'PermitSignerMismatch')
    }
    const late = (await chain.now()) - 1n
    await assertReverts(
      submit(await signRedemption(ann, condition, { deadline: late })),
      'PermitExpired',
      [late],
    )
    await submit(good)
    await assertReverts(submit(good), 'PermitSignerMismatch')
  })

  test('signed redemptions of several markets fit into one transaction of the multicall contract', async () => {
    const { ann, relayer, chain, conditionalTokens, multicall, balance } = world
    const conditions = [await resolved(), await resolved(), await resolved()]
    const before = await balance(ann.address)
    const calls = await Promise.all(
      conditions.map(async (condition, index) => ({
        target: conditionalTokens.address,
        allowFailure: false,
        callData: encode(await world.signRedemption(ann, condition, { nonce: BigInt(index) })),
      })),
    )
    // A call with `allowFailure` may fail without affecting the other calls of the transaction.
    const failing = { ...calls[0]!, allowFailure: true }
    await chain.send(relayer, multicall, 'aggregate3', [[...calls, failing]])
    assert.equal(await balance(ann.address), before + 300n * UNIT)
    await assertReverts(
      chain.send(relayer, multicall, 'aggregate3', [[{ ...failing, allowFailure: false }]]),
      'Multicall3: call failed',
    )
  })

  test('viem’s multicall works with the deployed multicall contract', async () => {
    const { ann, bob, chain, collateral, multicall, balance } = world
    const results = await chain.publicClient.multicall({
      multicallAddress: multicall.address,
      contracts: [ann, bob].map(({ address }) => ({
        ...collateral,
        functionName: 'balanceOf' as const,
        args: [address] as const,
      })),
      allowFailure: false,
    })
    assert.deepEqual(results, [await balance(ann.address), await balance(bob.address)])
  })

  const encode = (args: Awaited<ReturnType<World['signRedemption']>>): Hex =>
    encodeFunctionData({
      abi: world.conditionalTokens.abi,
      functionName: 'redeemPositionsWithPermit',
      args,
    })
})

test('the type hashes of the conditional tokens contract equal those of the published EIP-712 types', async () => {
  const { conditionalTokens, read } = world
  const hash = (text: string) => keccak256(stringToHex(text))
  assert.equal(
    await read(conditionalTokens, 'APPROVAL_FOR_ALL_TYPEHASH', []),
    hash(typeString('ApprovalForAll', APPROVAL_FOR_ALL_TYPES)),
  )
  assert.equal(
    await read(conditionalTokens, 'REDEEM_POSITIONS_TYPEHASH', []),
    hash(typeString('RedeemPositions', REDEEM_POSITIONS_TYPES)),
  )
})

/** Returns a collection id whose x coordinate is not on the curve. */
async function noPoint(same: (name: string, args: unknown[]) => Promise<unknown>): Promise<Hex> {
  for (let x = 1n; ; x += 1n) {
    const id = numberToHex(x, { size: 32 })
    if ((await same('getCollectionId', [id, id, 1n])) === undefined) return id
  }
}
