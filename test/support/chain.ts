/**
 * A real chain for tests: Hardhat's node as a process on a free port, with all contracts and, on request, the devnet's
 * markets and traders. The process ends with the test, even if the test run is killed. The chain offers the functions
 * of the contract tests (`fund`, `buy`, `settle`, `usdcPermit`, …) and those that need a node: mining on request and
 * reorgs.
 */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { custom, type Hex } from 'viem'
import { DEVNET_CHAIN_ID, devnetKey, OPERATOR, RELAYER } from '#devnet/accounts.ts'
import { endChain, leaseChain, startChainProcess } from '#devnet/chain-process.ts'
import type { Settings } from '#devnet/deploy.ts'
import { deployDevnet, seedDevnet } from '#devnet/seed.ts'
import { chainOver } from '../contracts/support/chain.ts'
import { worldOn } from '../contracts/support/world.ts'
import { makeRpcClient } from './rpc-client.ts'

export type TestChainOptions = Partial<Settings> & {
  readonly chainId?: number
  /** True to create the demo markets and to fund the traders #10 to #19. */
  readonly seed?: boolean
}

type RpcCall = { readonly method: string; readonly params?: unknown[] }

export type TestChain = Awaited<ReturnType<typeof openTestChain>>

/** Starts a chain that ends with the test. Subtests may use it, too. */
export async function startTestChain(
  t: TestContext,
  options: TestChainOptions = {},
): Promise<TestChain> {
  const chain = await openTestChain(options)
  t.after(() => chain.close())
  return chain
}

/** Starts a chain that its caller closes. */
export async function openTestChain(options: TestChainOptions = {}) {
  const { chainId = DEVNET_CHAIN_ID, seed = false, ...terms } = options
  const { url, genesis } = await startChainProcess({ port: 0, chainId, lingerMs: 0 })
  const lease = await leaseChain(url)
  const close = async (): Promise<void> => {
    await endChain(url)
    lease.release()
  }
  try {
    const node = makeRpcClient(url)
    const request = ({ method, params = [] }: RpcCall) => node.request(method, params)
    const chain = chainOver(chainId, custom({ request }, { retryCount: 0 }), close)
    const world = await worldOn(chain, terms, (settings) => deployDevnet(url, settings))
    const { settlement, conditionalTokens, collateral, factory, multicall, oracle } = world
    const demoMarkets = seed ? await seedDevnet(url, world) : []
    /** Contract addresses, in the form of the settings and of `/api/v1/config`. */
    const contracts = {
      settlement: settlement.address,
      conditionalTokens: conditionalTokens.address,
      stablecoin: collateral.address,
      marketFactory: factory.address,
      multicall: multicall.address,
      oracle: oracle.address,
    }
    /** One entry of `settings.chains`. */
    const settings = {
      chainId,
      role: 'test' as const,
      rpcUrls: [url],
      blockExplorer: '',
      startBlock: 0,
      confirmations: 0,
      contracts,
      stablecoin: {
        symbol: 'USDC',
        decimals: 6,
        domainName: 'USD Coin',
        domainVersion: '1',
      },
    }
    /** Settings of an exchange on this chain: `startExchange(t, { environment: chain.environment })`. */
    const environment = {
      SIBYL_CHAIN_RPC: url,
      SIBYL_CHAINS: JSON.stringify([{ ...settings, rpcUrls: [] }]),
    }
    const keys = {
      settlement: devnetKey(0),
      relayer: [devnetKey(RELAYER)],
      operator: devnetKey(OPERATOR),
    }

    async function height(): Promise<number> {
      return Number(await chain.request('eth_blockNumber', []))
    }
    async function mine(blocks = 1): Promise<void> {
      // The interval 0 gives all blocks the current second, so mining does not move the chain's clock.
      await chain.request('hardhat_mine', [hexOf(blocks), '0x0'])
    }

    return {
      ...world,
      url,
      genesis,
      contracts,
      settings,
      environment,
      keys,
      demoMarkets,
      publicClient: chain.publicClient,
      close,
      height,
      mine,
      warp: chain.warp,
      /**
       * Turns automatic mining on or off. If it is on, each transaction is mined at once; otherwise `mine` makes the
       * blocks.
       */
      async automine(on: boolean): Promise<void> {
        await chain.request('evm_setAutomine', [on])
      },
      snapshot: chain.snapshot,
      /**
       * Remembers the current block. The returned function makes a reorg: it undoes all later blocks, and mines
       * `deeper` more blocks than it has undone.
       */
      async fork(): Promise<(deeper?: number) => Promise<void>> {
        const id = await chain.request('evm_snapshot', [])
        const from = await height()
        return async (deeper = 1) => {
          const undone = (await height()) - from
          assert.equal(await chain.request('evm_revert', [id]), true)
          await leaveTrace()
          await mine(undone + deeper)
        }
      },
    }

    /**
     * Changes the balance of an account that is not used otherwise. Without this change, empty new blocks with the same
     * times would have the same hashes as the undone blocks.
     */
    async function leaveTrace(): Promise<void> {
      const balance = await chain.request('eth_getBalance', [TRACE, 'latest'])
      await chain.request('hardhat_setBalance', [
        TRACE,
        `0x${(BigInt(balance as Hex) + 1n).toString(16)}`,
      ])
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** An account without an owner. */
const TRACE = `0x${'7'.repeat(40)}`

function hexOf(value: number): Hex {
  return `0x${value.toString(16)}`
}
