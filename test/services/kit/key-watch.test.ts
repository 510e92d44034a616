import assert from 'node:assert/strict'
import { test } from 'node:test'
import { balanceOf } from '#chain/accounts.ts'
import { makeChainClient } from '#chain/clients.ts'
import { marketFactory } from '#chain/market-factory.ts'
import { settlementContract } from '#chain/settlement-contract.ts'
import { type Address, toAddress } from '#domain/ids.ts'
import { makeKeyWatch } from '#services/kit/key-watch.ts'
import { startWorld } from '../../contracts/support/world.ts'
import { startRpcProxy } from '../../support/rpc-proxy.ts'

const MIN_GWEI = 20_000_000

test('a key without its role or without ether is logged once with the reason, until it has them', async (t) => {
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
  const watch = (setting: string, address: Address, isOperator: typeof factory.isOperator) =>
    makeKeyWatch(log, MIN_GWEI, {
      ...{ setting, chainId, address },
      balanceWei: () => balanceOf(client, address),
      role: { contract: 'contract', isHeld: () => isOperator(address) },
    })

  const stranger = toAddress(world.ann.address)
  for (const { isOperator } of [settlement, factory]) {
    const lost = watch('SIBYL_X_KEY', stranger, isOperator)
    await lost.look()
    assert.equal(
      lost.why(),
      `SIBYL_X_KEY is ${stranger}, which is no operator of the contract on chain ${chainId}: give it the role`,
    )
  }
  assert.deepEqual(lines.splice(0), ['a key cannot do its job', 'a key cannot do its job'])

  const operator = toAddress(world.owner.address)
  const own = watch('SIBYL_SETTLEMENT_KEY', operator, settlement.isOperator)
  await own.look()
  assert.equal(own.why(), '')
  await request('hardhat_setBalance', [operator, '0x1'])
  await own.look()
  await own.look()
  assert.match(own.why(), /has 0 ether .*, less than SIBYL_RELAYER_BALANCE_MIN_GWEI \(0\.02\)/)
  await request('hardhat_setBalance', [operator, '0xde0b6b3a7640000'])
  await own.look()
  assert.equal(own.why(), '')
  assert.deepEqual(lines.splice(0), [
    ...['a key can do its job', 'a key cannot do its job', 'a key can do its job'],
  ])

  await proxy.close()
  await own.look()
  assert.equal(own.why(), '', 'a chain that is away says nothing about a key')
  assert.deepEqual(lines, ['a key could not be checked'])
})
