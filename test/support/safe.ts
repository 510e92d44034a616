/**
 * Creates a Safe (a contract wallet) with one owner, as users do: with the proxy, singleton and fallback handler of the
 * published package.
 */

import { createRequire } from 'node:module'
import { type Abi, type Account, encodeFunctionData, type Hex, parseEventLogs } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import type { Contract } from '#devnet/artifact.ts'
import type { Chain } from '../contracts/support/chain.ts'

const require = createRequire(import.meta.url)
const BUILDS = '@safe-global/safe-smart-account/build/artifacts/contracts'
const ZERO = `0x${'0'.repeat(40)}` as const

type Artifact = { readonly abi: Abi; readonly bytecode: Hex }

const build = (path: string, name: string): Artifact =>
  require(`${BUILDS}/${path}${name}.sol/${name}.json`) as Artifact

export type Safe = {
  readonly address: Hex
  /** Signs a digest for the Safe's `isValidSignature`, as its wallet does. */
  sign(digest: Hex): Promise<Hex>
  /** Sends a call from the Safe. */
  execute(contract: Contract, functionName: string, args: readonly unknown[]): Promise<unknown>
}

/** Deploys a Safe whose only owner is `key`; `payer` pays for everything. */
export async function makeSafe(
  chain: Pick<Chain, 'id' | 'deploy' | 'send' | 'publicClient'>,
  payer: Account,
  key: PrivateKeyAccount,
): Promise<Safe> {
  const singleton = build('', 'Safe')
  const factory = build('proxies/', 'SafeProxyFactory')
  const singletonAddress = await chain.deploy(payer, singleton, [])
  const handler = await chain.deploy(payer, build('handler/', 'CompatibilityFallbackHandler'), [])
  const factoryAddress = await chain.deploy(payer, factory, [])
  const setup = encodeFunctionData({
    abi: singleton.abi,
    functionName: 'setup',
    args: [[key.address], 1n, ZERO, '0x', handler, ZERO, 0n, ZERO],
  })
  const receipt = await chain.send(
    payer,
    { address: factoryAddress, abi: factory.abi },
    'createProxyWithNonce',
    [singletonAddress, setup, 0n],
  )
  const [created] = parseEventLogs({
    abi: factory.abi,
    logs: receipt.logs,
    eventName: 'ProxyCreation',
  })
  const { proxy: address } = (created as unknown as { args: { proxy: Hex } }).args
  const safe = { address, abi: singleton.abi }
  const domain = { chainId: chain.id, verifyingContract: address }
  const sign = (digest: Hex) =>
    key.signTypedData({
      domain,
      types: { SafeMessage: [{ name: 'message', type: 'bytes' }] },
      primaryType: 'SafeMessage',
      message: { message: digest },
    })
  return {
    address,
    sign,
    async execute(contract, functionName, args) {
      const data = encodeFunctionData({ abi: contract.abi, functionName, args })
      // The owner sends the transaction, so no signature is needed: v = 1 means that the sender approves.
      const approved = `0x${key.address.slice(2).padStart(64, '0')}${'0'.repeat(64)}01` as Hex
      return chain.send(key, safe, 'execTransaction', [
        ...([contract.address, 0n, data, 0, 0n, 0n, 0n, ZERO, ZERO, approved] as const),
      ])
    },
  }
}
