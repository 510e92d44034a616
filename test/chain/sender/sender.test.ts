import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { parseTransaction } from 'viem'
import { bumpedFees } from '#chain/sender/fees.ts'
import type { SenderUpdate, TransactionSender } from '#chain/sender/sender.ts'
import { Fault } from '#domain/fault.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import { type LaneFixture, laneFixture } from './lane-fixture.ts'

const GAS = 30_000n

describe('the transaction sender tracks each transaction until its final outcome', () => {
  let f: LaneFixture
  let restore: () => Promise<void>
  before(async () => {
    f = await laneFixture()
    restore = await f.chain.snapshot()
  })
  after(() => f.close())
  beforeEach(async () => {
    f.intercept = undefined
    f.journalFault = undefined
    f.rows.clear()
    await restore()
    restore = await f.chain.snapshot()
    await f.chain.request('evm_setAutomine', [false])
    await f.mine()
  })

  const send = (lane: TransactionSender, reference = 'one'): Promise<TransactionRow> =>
    lane.send({ to: f.target, data: '0x', value: 1n, gas: GAS, purpose: 'test', reference })
  const news = async (lane: TransactionSender): Promise<readonly SenderUpdate[]> =>
    (await lane.poll()).news
  const kinds = async (lane: TransactionSender): Promise<string[]> =>
    (await news(lane)).map((each) => (each.type === 'finished' ? each.outcome : each.type))
  const cutSending = (): void => {
    f.intercept = ({ method }) =>
      method === 'eth_sendRawTransaction' ? Promise.reject(new Error('socket hang up')) : undefined
  }
  /** Returns the number of transactions in the node's pending block. */
  const pooled = async (): Promise<number> => {
    const block = (await f.chain.request('eth_getBlockByNumber', ['pending', false])) as {
      transactions: unknown[]
    }
    return block.transactions.length
  }

  it('the sender reports once that a transaction is mined, and once that it is confirmed', async () => {
    const lane = f.lane()
    const row = await send(lane)
    assert.deepEqual(await kinds(lane), [])
    await f.mine()
    assert.deepEqual(await kinds(lane), ['mined'])
    await f.mine()
    const [end] = await news(lane)
    assert(end?.type === 'finished' && end.outcome === 'succeeded')
    assert.equal(end.receipt?.txHash, row.hashes[0])
    assert.deepEqual(await kinds(lane), [])
    await lane.acknowledge(row)
    assert.equal(f.rows.get(row.nonce)?.state, 'succeeded')
    assert.deepEqual(lane.open(), [])
  })

  it('a transaction is stored before it is sent to any node', async () => {
    const lane = f.lane()
    f.intercept = ({ method }) => {
      if (method === 'eth_sendRawTransaction') assert.equal(f.rows.size, 1)
      return undefined
    }
    await send(lane)
    f.journalFault = new Fault('STORE_AWAY', 'no database', { retryable: true })
    await assert.rejects(send(lane, 'two'), /no database/)
    f.journalFault = undefined
    assert.equal(await pooled(), 1)
    const row = await send(lane, 'three')
    assert.equal(row.nonce, 1, 'the nonce of what was not stored is used by the next')
  })

  it('after a kill between signing and broadcasting a transaction, the restarted sender sends the same bytes', async () => {
    cutSending()
    const row = await send(f.lane())
    assert.equal(await pooled(), 0)
    f.intercept = undefined
    const lane = f.lane()
    assert.deepEqual(
      (await lane.recover()).map(({ reference }) => reference),
      ['one'],
    )
    await lane.poll()
    assert.equal(await pooled(), 1)
    await f.mine(2)
    const end = (await news(lane)).find(({ type }) => type === 'finished')
    assert(end?.type === 'finished')
    assert.equal(end.receipt?.txHash, row.hashes[0])
    assert.equal(await f.count(), 1)
  })

  it('if the sender is killed after it broadcast a transaction, the restarted sender does not send it again, and reports its outcome', async () => {
    await send(f.lane())
    await f.mine(2)
    const lane = f.lane()
    assert.deepEqual(await kinds(lane), ['mined', 'succeeded'])
    assert.equal((await send(lane, 'two')).nonce, 1)
    assert.equal(await f.count(), 1)
  })

  it('if the sender is killed before the outcome of a transaction is acknowledged, the outcome is reported again', async () => {
    const first = f.lane()
    await send(first)
    await f.mine(2)
    await first.poll()
    const second = f.lane()
    assert.deepEqual(await kinds(second), ['mined', 'succeeded'])
    await second.acknowledge({ sender: f.sender, nonce: 0 })
    assert.deepEqual(await kinds(f.lane()), [])
  })

  it('while the Ethereum node does not answer, a transaction is delayed but not lost', async () => {
    const lane = f.lane()
    f.intercept = () => Promise.reject(new Error('ECONNREFUSED'))
    await assert.rejects(send(lane), (error: unknown) => {
      assert(error instanceof Fault && error.retryable)
      return true
    })
    await assert.rejects(lane.poll(), Fault)
    assert.equal(f.rows.size, 0)
    f.intercept = undefined
    await send(lane)
    await f.mine(2)
    assert.deepEqual(await kinds(lane), ['mined', 'succeeded'])
  })

  it('a transaction that the transaction pool has dropped is broadcast again', async () => {
    const lane = f.lane()
    const row = await send(lane)
    await f.chain.request('hardhat_dropTransaction', [row.hashes[0]])
    assert.equal(await pooled(), 0)
    await lane.poll()
    assert.equal(await pooled(), 0, 'not before it is due')
    f.nowMs += 1_000
    await lane.poll()
    assert.equal(await pooled(), 1)
    await f.mine(2)
    assert.deepEqual(await kinds(lane), ['mined', 'succeeded'])
  })

  it('if the base fee exceeds a transaction’s maximum fee, the sender raises both transaction fees by at least 12.5%', async () => {
    const lane = f.lane()
    const row = await send(lane)
    const jump = BigInt(row.maxFeePerGas) * 3n
    await f.setBaseFee(jump)
    await f.mine()
    assert.equal(await f.count(), 0)
    assert.deepEqual(await kinds(lane), ['replaced'])
    const after = f.rows.get(0)
    assert(after !== undefined && after.hashes.length === 2)
    assert(BigInt(after.maxFeePerGas) > jump)
    assert(BigInt(after.maxPriorityFeePerGas) * 8n >= BigInt(row.maxPriorityFeePerGas) * 9n)
    await f.mine(2)
    const ends = await news(lane)
    const end = ends.find(({ type }) => type === 'finished')
    assert(end?.type === 'finished' && end.receipt?.txHash === after.hashes[1])
    assert.equal(await f.count(), 1)
  })

  it('a transaction that waits long is signed again with higher fees, and stored before it is sent', async () => {
    const lane = f.lane()
    const row = await send(lane)
    await lane.poll()
    f.nowMs += 10_000
    f.intercept = ({ method }) => {
      if (method === 'eth_sendRawTransaction') assert.equal(f.rows.get(0)?.hashes.length, 2)
      return undefined
    }
    assert.deepEqual(await kinds(lane), ['replaced'])
    const after = f.rows.get(0)
    assert(after !== undefined)
    assert(BigInt(after.maxFeePerGas) * 8n >= BigInt(row.maxFeePerGas) * 9n)
    assert.equal(await pooled(), 1)
  })

  it('if the sender has signed a transaction several times, it reports the hash of the mined version', async () => {
    const lane = f.lane()
    const row = await send(lane)
    await lane.poll()
    f.nowMs += 10_000
    cutSending()
    assert.deepEqual(await kinds(lane), ['replaced'])
    await f.mine(2)
    f.intercept = undefined
    const end = (await news(lane)).find(({ type }) => type === 'finished')
    assert(end?.type === 'finished')
    assert.equal(end.receipt?.txHash, row.hashes[0])
  })

  it('the sender does not count the errors "already known" and "nonce too low" as failures', async () => {
    const lane = f.lane()
    await send(lane)
    f.nowMs += 1_000
    const answered: string[] = []
    f.intercept = ({ method }, through) =>
      method !== 'eth_sendRawTransaction'
        ? undefined
        : through().catch((error: Error) => {
            answered.push(error.message)
            throw error
          })
    await lane.poll()
    assert.equal(answered.length, 1)
    assert.equal(lane.open()[0]?.error, '', answered[0])
    await f.mine()
    // If the node does not report the mined transaction yet, the sender broadcasts it once more.
    f.intercept = ({ method }, through) =>
      method === 'eth_getTransactionCount'
        ? Promise.resolve('0x0')
        : method === 'eth_sendRawTransaction'
          ? through().catch((error: Error) => {
              answered.push(error.message)
              throw error
            })
          : undefined
    f.nowMs += 1_000
    await lane.poll()
    assert.equal(answered.length, 2)
    assert.match(answered[1] ?? '', /nonce/i)
    assert.equal(lane.open()[0]?.error, '', answered[1])
    f.intercept = undefined
    await f.mine()
    assert.deepEqual(await kinds(lane), ['mined', 'succeeded'])
  })

  it('after the error "replacement underpriced", the sender raises its fees at once', async () => {
    const account = f.chain.account(5)
    const { baseFeePerGas } = await f.chain.publicClient.getBlock()
    // Another process has used the key, with fees three times as high.
    await f.chain.wallet(account).sendTransaction({
      to: f.target,
      nonce: 0,
      gas: GAS,
      maxFeePerGas: (baseFeePerGas ?? 0n) * 6n + 6_000_000_000n,
      maxPriorityFeePerGas: 6_000_000_000n,
    })
    const lane = f.lane()
    await send(lane)
    for (let polls = 0; polls < 60 && lane.open()[0]?.error !== ''; polls++) await lane.poll()
    assert.equal(lane.open()[0]?.error, '')
    await f.mine(2)
    const end = (await news(lane)).find(({ type }) => type === 'finished')
    assert(end?.type === 'finished' && end.outcome === 'succeeded')
  })

  it('the sender replaces a permanently refused transaction by an empty one, and later transactions succeed', async () => {
    const lane = f.lane()
    const bad = await lane.send({
      to: f.target,
      data: '0x',
      gas: 100_000_000_000n,
      purpose: 'test',
      reference: 'bad',
    })
    const good = await send(lane, 'good')
    assert.deepEqual(await kinds(lane), ['replaced'])
    const blank = parseTransaction(f.rows.get(bad.nonce)?.raw as `0x02${string}`)
    assert.equal(blank.to, f.sender)
    f.nowMs += 1_000
    await lane.poll()
    await f.mine(2)
    const ends = (await news(lane)).filter((each) => each.type === 'finished')
    assert.deepEqual(
      ends.map(({ transaction, outcome }) => [transaction.reference, outcome]),
      [
        ['bad', 'cancelled'],
        ['good', 'succeeded'],
      ],
    )
    assert.equal(good.nonce, 1)
  })

  it('the sender replaces a permanently refused transaction even if its fee is already at the limit', async () => {
    const cap = 3_000_000_000n
    await f.setBaseFee(2_000_000_000n)
    await f.mine()
    const lane = f.lane({ maxFeeCap: cap })
    const bad = await lane.send({
      to: f.target,
      data: '0x',
      gas: 100_000_000_000n,
      purpose: 'test',
      reference: 'bad',
    })
    assert.equal(bad.maxFeePerGas, String(cap))
    await send(lane, 'good')
    assert.deepEqual(await kinds(lane), ['replaced'])
    assert(BigInt(f.rows.get(bad.nonce)?.maxFeePerGas ?? 0) <= cap)
    f.nowMs += 1_000
    await lane.poll()
    await f.mine(2)
    const ends = (await news(lane)).filter((each) => each.type === 'finished')
    assert.deepEqual(
      ends.map(({ transaction, outcome }) => [transaction.reference, outcome]),
      [
        ['bad', 'cancelled'],
        ['good', 'succeeded'],
      ],
    )
  })

  it('an abandoned transaction is replaced by an empty one with the same nonce', async () => {
    const lane = f.lane()
    const row = await send(lane)
    lane.abandon(row)
    await lane.poll()
    await f.mine(2)
    const before = await f.chain.publicClient.getBalance({ address: f.target })
    assert.deepEqual((await kinds(lane)).at(-1), 'cancelled')
    assert.equal(await f.chain.publicClient.getBalance({ address: f.target }), before)
  })

  it('the sender fills a missing nonce below an open transaction with an empty transaction', async () => {
    const lane = f.lane()
    await send(lane, 'one')
    await send(lane, 'two')
    await f.chain.request('hardhat_dropTransaction', [f.rows.get(0)?.hashes[0]])
    f.rows.delete(0)
    const next = f.lane()
    f.nowMs += 1_000
    await next.poll()
    await f.mine()
    assert.equal(await f.count(), 0)
    f.nowMs += 10_000
    await next.poll()
    await f.mine(2)
    assert.deepEqual(await kinds(next), ['mined', 'succeeded'])
    await next.poll()
    assert.equal(f.rows.get(0)?.state, 'cancelled')
    assert.equal(await f.count(), 2)
  })

  it('if a journal restored from a backup lacks sent transactions, the sender does not reuse the transactions’ nonces', async () => {
    const lane = f.lane()
    await send(lane, 'known')
    await send(lane, 'mined')
    await f.mine()
    const waiting = await send(lane, 'waiting')
    // The journal is restored from a backup without the two newest transactions.
    f.rows.delete(1)
    f.rows.delete(2)
    const next = f.lane()
    assert.equal((await send(next, 'new')).nonce, 3)
    await f.mine()
    assert.equal(await f.count(), 4)
    const receipt = await f.chain.publicClient.getTransactionReceipt({
      hash: waiting.hashes[0] as `0x${string}`,
    })
    assert.equal(receipt.status, 'success', 'what waited was not replaced')
    await f.mine(2)
    assert.deepEqual(await kinds(next), ['mined', 'succeeded', 'mined', 'succeeded'])
  })

  it('the sender reports a transaction as lost if another sender has used its nonce', async () => {
    const lane = f.lane()
    cutSending()
    const row = await send(lane)
    await f.chain
      .wallet(f.chain.account(5))
      .sendTransaction({ to: f.target, nonce: 0, gas: GAS, value: 0n })
    await f.mine()
    f.intercept = undefined
    assert.deepEqual(await kinds(lane), [])
    await f.mine(2)
    f.nowMs += 5_000
    assert.deepEqual(await kinds(lane), ['lost'])
    await lane.acknowledge(row)
    assert.equal((await send(lane, 'two')).nonce, 1)
  })

  it('if a reorg removes a finished transaction, the sender reports the removal and sends the transaction again', async () => {
    const lane = f.lane()
    const undo = await f.chain.snapshot()
    const row = await send(lane)
    await f.mine(2)
    await lane.poll()
    await lane.acknowledge(row)
    await undo()
    // The chain is replaced by a longer branch without transactions.
    await f.chain.request('evm_increaseTime', [7])
    await f.mine(3)
    assert.deepEqual(await kinds(lane), ['vanished'])
    assert.equal(await f.count(), 0)
    await lane.poll()
    assert.equal(f.rows.get(0)?.state, 'open')
    await f.mine(2)
    assert.deepEqual(await kinds(lane), ['mined', 'succeeded'])
    await lane.acknowledge(row)
    assert.equal(f.rows.get(0)?.state, 'succeeded')
    assert.equal(await f.count(), 1)
  })

  it('after a restart, the sender detects a reorg that happened while the sender was stopped', async () => {
    const first = f.lane()
    const undo = await f.chain.snapshot()
    const row = await send(first)
    await f.mine(2)
    await first.poll()
    await first.acknowledge(row)
    await undo()
    await f.chain.request('evm_increaseTime', [7])
    await f.mine(3)
    const lane = f.lane()
    assert.deepEqual(await kinds(lane), ['vanished'])
    await lane.poll()
    await f.mine(2)
    assert.deepEqual(await kinds(lane), ['mined', 'succeeded'])
  })

  it('if an Ethereum node briefly lags behind, the sender does not mistake this for a reorg', async () => {
    const lane = f.lane()
    const row = await send(lane)
    await f.mine(2)
    await lane.poll()
    await lane.acknowledge(row)
    const old = await f.chain.request('eth_getBlockByNumber', ['0x1', false])
    const head = (await f.chain.request('eth_getBlockByNumber', ['latest', false])) as {
      number: string
    }
    const stale: LaneFixture['intercept'] = ({ method, params }) => {
      const [which] = params as unknown[]
      if (method === 'eth_getTransactionCount') return Promise.resolve('0x0')
      if (method === 'eth_getTransactionReceipt') return Promise.resolve(null)
      if (method !== 'eth_getBlockByNumber') return undefined
      return Promise.resolve(which === 'latest' || which === '0x1' ? old : null)
    }
    f.intercept = stale
    assert.deepEqual(await kinds(lane), [])
    assert.deepEqual(await kinds(lane), [])
    f.intercept = undefined
    assert.deepEqual(await kinds(lane), [])
    assert(Number(head.number) > 1)
    // If the node reports a shorter chain for `doubtMs`, the sender assumes that the missing blocks were replaced.
    f.intercept = stale
    f.nowMs += 5_000
    assert.deepEqual(await kinds(lane), ['vanished'])
  })

  it('if only some answers come from an Ethereum node that lags behind, the sender detects no reorg', async () => {
    const lane = f.lane()
    const undo = await f.chain.snapshot()
    const done = await send(lane)
    await f.mine(2)
    assert.deepEqual(await kinds(lane), ['mined', 'succeeded'])
    await lane.acknowledge(done)
    await send(lane, 'two')
    await f.mine()
    assert.deepEqual(await kinds(lane), ['mined'])
    // The newest block comes from an up-to-date node. All other answers come from a node that lags.
    const behind: LaneFixture['intercept'] = ({ method, params }) => {
      const [which] = params as unknown[]
      if (method === 'eth_getTransactionReceipt') return Promise.resolve(null)
      if (method !== 'eth_getBlockByNumber' || which === 'latest') return undefined
      return Promise.resolve(null)
    }
    await f.mine(3)
    f.intercept = behind
    assert.deepEqual(await kinds(lane), [])
    assert.deepEqual(await kinds(lane), [], 'also when the head stays as it is')
    f.intercept = undefined
    assert.deepEqual(await kinds(lane), ['succeeded'])

    // While some answers come from a lagging node, the sender reports no reorg. It detects the reorg at the first poll
    // in which all answers come from an up-to-date node.
    await undo()
    await f.chain.request('evm_increaseTime', [7])
    await f.mine(9)
    f.intercept = behind
    assert.deepEqual(await kinds(lane), [])
    f.intercept = undefined
    await f.mine()
    assert.deepEqual(await kinds(lane), ['vanished', 'vanished'])
  })

  it('the sender detects a reorg even if a lagging Ethereum node still reported the old block at first', async () => {
    const lane = f.lane()
    const undo = await f.chain.snapshot()
    const row = await send(lane)
    await f.mine(2)
    await lane.poll()
    await lane.acknowledge(row)
    await f.mine()
    await lane.poll()
    const mined = f.rows.get(row.nonce)
    const old = await f.chain.request('eth_getBlockByNumber', [
      `0x${mined?.blockNumber?.toString(16)}`,
      false,
    ])
    await undo()
    await f.chain.request('evm_increaseTime', [7])
    await f.mine(9)
    // The node returns only two blocks: the newest one, and the old branch's block with the transaction.
    f.intercept = ({ method, params }) => {
      const [which] = params as unknown[]
      if (method !== 'eth_getBlockByNumber' || which === 'latest') return undefined
      return Promise.resolve(Number(which) === mined?.blockNumber ? old : null)
    }
    assert.deepEqual(await kinds(lane), [])
    f.intercept = undefined
    assert.deepEqual(await kinds(lane), ['vanished'])
  })

  it('the sender refuses another transaction when it has the maximum number of open transactions', async () => {
    const lane = f.lane({ openMax: 2 })
    await send(lane)
    await send(lane)
    await assert.rejects(send(lane), /too many/)
  })
})

describe('the sender computes the fees of a transaction', () => {
  it('replacement fees rise by at least an eighth, follow higher suggested fees, and never exceed the limit', () => {
    const old = { maxFeePerGas: 80n, maxPriorityFeePerGas: 8n }
    const cheap = { maxFeePerGas: 10n, maxPriorityFeePerGas: 1n }
    assert.deepEqual(bumpedFees(old, cheap, 1_000n), {
      maxFeePerGas: 90n,
      maxPriorityFeePerGas: 9n,
    })
    const dear = { maxFeePerGas: 500n, maxPriorityFeePerGas: 20n }
    assert.deepEqual(bumpedFees(old, dear, 1_000n), dear)
    assert.deepEqual(bumpedFees(old, dear, 100n), { maxFeePerGas: 100n, maxPriorityFeePerGas: 9n })
    assert.equal(bumpedFees(old, dear, 89n), undefined)
    const nothing = { maxFeePerGas: 0n, maxPriorityFeePerGas: 0n }
    assert.deepEqual(bumpedFees(nothing, nothing, 10n), {
      maxFeePerGas: 1n,
      maxPriorityFeePerGas: 1n,
    })
  })
})
