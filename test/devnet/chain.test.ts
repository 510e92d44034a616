import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { test } from 'node:test'
import { devnet } from '#config/devnet.ts'
import { DEMO_MAKER, DEMO_TAKER, DEMO_TRADERS, devnetAccount } from '#devnet/accounts.ts'
import { httpBatch, makeBatchSender } from '#devnet/batch-sender.ts'
import { chainUrl, leaseChain, probeChain, startChainProcess } from '#devnet/chain-process.ts'
import { DEMO_EVENT, DEMO_WORDS } from '#devnet/demo-words.ts'
import { startTestChain } from '../support/chain.ts'
import { eventually } from '../support/eventually.ts'

const UNIT = 1_000_000n

test('a new local chain has contracts, demo markets and funded traders, and can replace its newest blocks', async (t) => {
  const chain = await startTestChain(t, { seed: true })

  await t.test('the local chain has its contracts at the configured addresses', () => {
    assert.deepEqual(chain.contracts, devnet.chains?.[0]?.contracts)
  })

  await t.test('the local chain has demo markets and traders with funds', async () => {
    assert.equal(chain.demoMarkets.length, DEMO_WORDS.length + DEMO_EVENT.questions.length)
    for (const index of [DEMO_TAKER, DEMO_MAKER, ...DEMO_TRADERS]) {
      const { address } = devnetAccount(index)
      assert.equal(await chain.balance(address), 1_000_000n * UNIT)
      for (const market of chain.demoMarkets) {
        for (const outcome of [0, 1]) {
          assert.equal(await chain.shares(address, market.id, outcome), 100_000n * UNIT)
        }
      }
      const { settlement, collateral, conditionalTokens } = chain
      const allowed = await chain.read(collateral, 'allowance', [address, settlement.address])
      assert.equal(allowed, 2n ** 256n - 1n)
      const approval = [address, settlement.address] as const
      assert.equal(await chain.read(conditionalTokens, 'isApprovedForAll', approval), true)
    }
  })

  await t.test('the local chain can remove blocks and replace them by others', async () => {
    const { publicClient } = chain
    const replace = await chain.fork()
    const market = await chain.createMarket()
    await chain.mine(4)
    const before = await publicClient.getBlock()
    assert.equal(await chain.read(chain.factory, 'isMarket', [market.address]), true)
    await replace()
    const after = await publicClient.getBlock()
    assert.equal(after.number, before.number + 1n)
    const instead = await publicClient.getBlock({ blockNumber: before.number })
    assert.notEqual(instead.hash, before.hash)
    assert.equal(await chain.read(chain.factory, 'isMarket', [market.address]), false)
  })

  await t.test(
    'a process that uses the local chain is notified when the chain’s clock is moved',
    async (subtest) => {
      const offsets: number[] = []
      const lease = await leaseChain(chain.url, { onClock: (seconds) => offsets.push(seconds) })
      subtest.after(() => lease.release())
      // The offset is the number of seconds by which the chain's clock is ahead of this machine's. It may differ from
      // 0, because the reorg above also set the chain's clock back.
      const [before = Number.NaN, ...more] = offsets
      assert.deepEqual(more, [])
      await chain.warp(7_200)
      // The clocks of the chain and of this machine count whole seconds, so the new offset may be wrong by one second.
      await eventually(() => assert.ok(Math.abs((offsets.at(-1) ?? 0) - before - 7_200) <= 1))
      assert.equal(offsets.length, 2)
    },
  )

  await t.test(
    'if a transaction in a batch reverts, the others still succeed, and the local chain continues to mine',
    async () => {
      const sender = makeBatchSender(httpBatch(chain.url))
      const stranger = devnetAccount(5)
      await sender.send(chain.owner, chain.collateral, 'mint', [stranger.address, 5n])
      await sender.send(stranger, chain.collateral, 'mint', [stranger.address, 5n])
      await assert.rejects(sender.flush(), /mint reverted/)
      assert.equal(await chain.balance(stranger.address), 5n, 'the others went well')
      await chain.chain.send(chain.owner, chain.collateral, 'mint', [stranger.address, 1n])
      assert.equal(await chain.balance(stranger.address), 6n)
    },
  )

  await t.test(
    'a second local chain on the same port reports that the port is in use',
    async () => {
      const port = Number(new URL(chain.url).port)
      await assert.rejects(startChainProcess({ port }), /did not start: .*EADDRINUSE/)
    },
  )
})

test('the local chain’s process exits when the last exchange releases the chain, not before', async () => {
  const { url } = await startChainProcess({ port: 0, lingerMs: 0 })
  const first = await leaseChain(url)
  const second = await leaseChain(url)
  first.release()
  await eventually(async () => {
    const probe = await probeChain(url)
    assert.equal(probe.found === 'chain' && probe.identity.leases, 1)
  })
  second.release()
  await eventually(async () => assert.equal((await probeChain(url)).found, 'nothing'))
})

test('a local chain’s port that accepts connections but does not answer is reported as silent', async (t) => {
  const server = createServer(() => {}).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  assert.deepEqual(await probeChain(chainUrl(port), 20), { found: 'silent' })
})
