import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { balanceOf } from '#chain/accounts.ts'
import { makeChainClient } from '#chain/clients.ts'
import { marketFactory } from '#chain/market-factory.ts'
import { settlementContract } from '#chain/settlement-contract.ts'
import { type Address, toAddress } from '#domain/ids.ts'
import { keyMeters } from '#services/kit/key-metrics.ts'
import { makeKeyWatch } from '#services/kit/key-watch.ts'
import { startWorld } from '../../contracts/support/world.ts'
import { startRpcProxy } from '../../support/rpc-proxy.ts'

const MIN_GWEI = 20_000_000
const LOW_GWEI = 500_000_000

test('if a wallet key lacks its contract role or ether, the log reports this once, not every check', async (t) => {
  const world = await startWorld()
  const proxy = await startRpcProxy(world.chain)
  t.after(async () => {
    await proxy.close()
    await world.chain.close()
  })
  const { request, id: chainId } = world.chain
  const client = makeChainClient({ chainId, rpcUrls: [proxy.url] })
  const settlement = settlementContract(client, toAddress(world.settlement.address))
  const factory = marketFactory(client, toAddress(world.factory.address))
  const lines: string[] = []
  const log = {
    info: (_: object, message: string) => void lines.push(message),
    warn: (_: object, message: string) => void lines.push(message),
    debug: (_: object, message: string) => void lines.push(message),
  }
  const registry = new Registry()
  const keys = keyMeters(registry, log)
  const watch = (setting: string, address: Address, isOperator: typeof factory.isOperator) =>
    makeKeyWatch(
      { log, keys },
      { balanceMinGwei: MIN_GWEI, balanceLowGwei: LOW_GWEI },
      {
        ...{ setting, chainId, address },
        balanceWei: () => balanceOf(client, address),
        role: { contract: 'contract', isHeld: () => isOperator(address) },
      },
    )

  const stranger = toAddress(world.ann.address)
  for (const { isOperator } of [settlement, factory]) {
    const lost = watch('SIBYL_X_KEY', stranger, isOperator)
    await lost.look()
    assert.equal(
      lost.why(),
      `SIBYL_X_KEY is ${stranger}, which is not an operator of the contract on chain ${chainId}: give it the role`,
    )
  }
  assert.deepEqual(lines.splice(0), ['a key cannot be used', 'a key cannot be used'])

  const operator = toAddress(world.owner.address)
  const own = watch('SIBYL_SETTLEMENT_KEY', operator, settlement.isOperator)
  await own.look()
  assert.equal(own.why(), '')
  await request('hardhat_setBalance', [operator, '0x1'])
  await own.look()
  await own.look()
  assert.match(
    own.why(),
    /has 0 ether .*, less than SIBYL_RELAYER_BALANCE_MIN_GWEI \(0\.02 ether\)/,
  )
  await request('hardhat_setBalance', [operator, '0xde0b6b3a7640000'])
  await own.look()
  assert.equal(own.why(), '')
  assert.deepEqual(lines.splice(0), [
    ...['a key can be used', 'a key runs out of ether for gas', 'a key cannot be used'],
    'a key can be used',
  ])
  const metricOf = async (name: string): Promise<number> => {
    const { values = [] } = (await registry.getSingleMetric(name)?.get()) ?? {}
    return values.find(({ labels }) => labels.setting === 'SIBYL_SETTLEMENT_KEY')?.value ?? -1
  }
  const spentBefore = await metricOf('sibyl_key_spent_ether_total')
  // The refill to 2 ether does not count as spending; the fall to 0.1 does.
  for (const wei of ['0x1bc16d674ec80000', '0x16345785d8a0000']) {
    await request('hardhat_setBalance', [operator, wei])
    await own.look()
  }
  await own.look()
  assert.equal(own.why(), '', 'a key with little ether still does its job')
  assert.deepEqual(lines.splice(0), ['a key runs out of ether for gas'])
  assert.equal(await metricOf('sibyl_key_balance_ether'), 0.1)
  assert.equal(await metricOf('sibyl_key_balance_low'), 1)
  const spent = (await metricOf('sibyl_key_spent_ether_total')) - spentBefore
  assert.equal(spent.toFixed(6), '1.900000')

  await proxy.close()
  await own.look()
  assert.equal(own.why(), '', 'a chain that is away says nothing about a key')
  assert.deepEqual(lines, ['the chain could not confirm whether the key of this setting is usable'])
})
