/** Tests the configuration and the chain of a fresh devnet from the view of an integrator. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import {
  createPublicClient,
  createWalletClient,
  type hashTypedData,
  http,
  verifyTypedData,
} from 'viem'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { devnetAccount, devnetKey } from '#devnet/accounts.ts'
import { readChainRecord } from '#devnet/chain-record.ts'
import type { SignatureScheme } from '#protocol/shapes/config.ts'
import { settlementAbi } from '../../contracts/artifacts/Settlement.abi.ts'
import { testUSDCAbi } from '../../contracts/artifacts/TestUSDC.abi.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'

const UNIT = 1_000_000n

export async function tryChain(t: TestContext, { url, dataDir }: Exchange): Promise<void> {
  const chain = readChainRecord(dataDir)?.[31_337]
  assert.ok(chain !== undefined)
  const publicClient = createPublicClient({ transport: http(chain.url) })
  const ann = createClient({ url, signer: devnetKey(10) })
  // The exchange opens before it has read its markets from the chain, so the test waits for them.
  const market = await eventually(async () => {
    const [first] = await ann.markets()
    assert.ok(first !== undefined)
    return first
  })
  const [config] = (await ann.config()).chains
  assert.ok(config !== undefined)

  await t.test(
    'the published contract addresses are those on the chain, and the devnet publishes its RPC address',
    async () => {
      const { delegates, ...contracts } = config.contracts
      assert.deepEqual(contracts, chain.contracts)
      const address = contracts.settlement as `0x${string}`
      const onChain = { address, abi: settlementAbi, functionName: 'delegates' } as const
      assert.equal(delegates, await publicClient.readContract(onChain))
      assert.equal(config.rpcUrl, chain.url)
      assert.deepEqual(config.stablecoin, {
        symbol: 'USDC',
        decimals: 6,
        address: chain.contracts.stablecoin,
      })
    },
  )

  await t.test('the configuration contains the limits of the stream', async () => {
    const { limits } = await ann.config()
    for (const name of ['streamHeartbeatMs', 'streamSubscriptionsMax', 'streamPayloadBytesMax']) {
      assert.ok((limits[name] ?? 0) > 0, name)
    }
  })

  await t.test(
    'the published signing domain of each operation equals the domain of its contract',
    async () => {
      for (const name of ['order', 'ctfApproval', 'ctfRedemption', 'stablecoinPermit'] as const) {
        const { domain }: SignatureScheme = config.signatures[name]
        assert.ok(domain.verifyingContract !== undefined, name)
        const told = await publicClient.getEip712Domain({
          address: domain.verifyingContract as `0x${string}`,
        })
        const { salt: _, ...same } = told.domain
        assert.deepEqual(same, domain, name)
      }
      for (const name of ['proposeResolution', 'settleMarket'] as const) {
        const { domain }: SignatureScheme = config.signatures[name]
        assert.equal(domain.verifyingContract, undefined)
        const told = await publicClient.getEip712Domain({
          address: market.contractAddress as `0x${string}`,
        })
        assert.deepEqual([told.domain.name, told.domain.version], [domain.name, domain.version])
      }
    },
  )

  await t.test('the stablecoin accepts a permit with the published nonce', async () => {
    const { domain, types, primaryType, nonce } = config.signatures.stablecoinPermit
    assert.equal(nonce?.contract, chain.contracts.stablecoin)
    assert.deepEqual([nonce?.function, nonce?.args], ['nonces', ['owner']])
    const owner = devnetAccount(12)
    const message = {
      owner: owner.address,
      spender: chain.contracts.settlement,
      value: 5n,
      nonce: await publicClient.readContract({
        ...{ address: chain.contracts.stablecoin as `0x${string}`, abi: testUSDCAbi },
        ...({ functionName: 'nonces', args: [owner.address] } as const),
      }),
      deadline: (await publicClient.getBlock()).timestamp + 600n,
    }
    const data = { domain, types, primaryType, message } as Parameters<typeof hashTypedData>[0]
    const signature = await owner.signTypedData(data as never)
    assert.ok(await verifyTypedData({ ...data, address: owner.address, signature } as never))
  })

  await t.test(
    'a trader splits stablecoin into complete sets, and merges the sets again',
    async () => {
      const before = await ann.chain.balances({ marketId: market.id })
      assert.deepEqual(
        [before.stablecoin, before.yes, before.no],
        [1_000_000n * UNIT, 100_000n * UNIT, 100_000n * UNIT],
      )
      const { txHash } = await ann.chain.split(market.id, '12.5')
      assert.match(txHash, /^0x[0-9a-f]{64}$/)
      const after = await ann.chain.balances({ marketId: market.id })
      assert.equal(before.stablecoin - after.stablecoin, 12_500_000n)
      assert.deepEqual([after.yes - before.yes, after.no - before.no], [12_500_000n, 12_500_000n])
      await ann.chain.merge(market.id, 12_500_000)
      const { ether: _, ...end } = await ann.chain.balances({ marketId: market.id })
      const { ether: paid, ...start } = before
      assert.deepEqual(end, start)
      assert.ok(paid > 0n)
    },
  )

  await t.test('two simultaneous splits by one trader are sent as two transactions', async () => {
    const [first, second] = await Promise.all([
      ann.chain.split(market.id, '1'),
      ann.chain.split(market.id, '2'),
    ])
    assert.notEqual(first.txHash, second.txHash)
    const { yes } = await ann.chain.balances({ marketId: market.id })
    assert.equal(yes, 100_003n * UNIT)
  })

  await t.test('a new trader approves the exchange once, with any kind of wallet', async () => {
    // The devnet's account 4 has ether but no stablecoins or shares.
    const account = devnetAccount(4)
    const wallet = createWalletClient({ account, transport: http(chain.url) })
    const newcomer = createClient({ url, signer: wallet })
    assert.deepEqual(await newcomer.chain.approvals(), { stablecoin: 0n, conditionalTokens: false })
    assert.equal((await newcomer.chain.approve()).length, 2)
    assert.deepEqual(await newcomer.chain.approvals(), {
      stablecoin: 10_000n * UNIT,
      conditionalTokens: true,
    })
    const again = createClient({ url, signer: account })
    assert.deepEqual(await again.chain.approve(), [])
    assert.equal((await again.chain.approve('unlimited')).length, 1)
    assert.equal((await again.chain.approvals()).stablecoin, 2n ** 256n - 1n)
    assert.equal((await again.chain.balances()).stablecoin, 0n)
  })

  await t.test(
    'the client explains why the chain would refuse a transaction, and spends no gas',
    async () => {
      const { address } = devnetAccount(5)
      const poor = createClient({ url, signer: devnetKey(5) })
      const nonce = await publicClient.getTransactionCount({ address })
      await assert.rejects(
        poor.chain.merge(market.id, '1'),
        (error) => error instanceof SibylError && error.code === 'REVERTED',
      )
      await assert.rejects(poor.chain.split(market.id, '1'), /ERC20InsufficientBalance/)
      const approval = 1
      assert.equal(await publicClient.getTransactionCount({ address }), nonce + approval)
    },
  )

  await t.test('calls with wrong arguments are refused before anything is sent', async () => {
    const codeOf = (call: Promise<unknown>) =>
      call.then(
        () => assert.fail('it was taken'),
        (error: unknown) => (error instanceof SibylError ? error.code : error),
      )
    assert.equal(await codeOf(ann.chain.split('0x12', '1')), 'INVALID_FIELD')
    assert.equal(await codeOf(ann.chain.split(market.id, '0')), 'SIZE_NOT_POSITIVE')
    assert.equal(await codeOf(createClient({ url }).chain.approve()), 'MISSING_FIELD')
    const nowhere = createClient({ url, rpcUrl: 'http://127.0.0.1:1', signer: devnetKey(10) })
    assert.equal(await codeOf(nowhere.chain.balances()), 'CHAIN_UNAVAILABLE')
    const { address, signTypedData } = devnetAccount(10)
    const signerOnly = createClient({ url, signer: { address, signTypedData } })
    assert.equal(await codeOf(signerOnly.chain.split(market.id, '1')), 'INVALID_FIELD')
  })
}
