/**
 * Makes a chain for one test file. Hardhat's EVM runs inside this process, mines one block per transaction, and listens
 * on no port. Tests use the chain through viem, like any node. For a chain in another process, `chainOver` makes the
 * same interface (see `test/support/chain.ts`).
 */
import { fileURLToPath } from 'node:url'
import { createHardhatRuntimeEnvironment } from 'hardhat/hre'
import {
  type Abi,
  type Account,
  type Chain as ChainDefinition,
  type ContractFunctionArgs,
  type ContractFunctionName,
  createPublicClient,
  createTestClient,
  createWalletClient,
  custom,
  getAddress,
  type Hex,
  type PublicClient,
  type TransactionReceipt,
  type Transport,
  type WalletClient,
} from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { hardhat } from 'viem/chains'
import { devnetAccount } from '#devnet/accounts.ts'
import type { Contract } from '#devnet/artifact.ts'

const PROJECT = fileURLToPath(new URL('../../../', import.meta.url))
const BLOCK_GAS = 60_000_000n

export type Chain = {
  readonly id: number
  readonly publicClient: PublicClient<Transport, ChainDefinition>
  /** Returns one of Hardhat's well-known accounts, which have ether and whose keys are known here. */
  account(index: number): PrivateKeyAccount
  wallet(account: Account): WalletClient<Transport, ChainDefinition, Account>
  /** Sends a call and returns its receipt. If the call reverts, throws the decoded reason. */
  send<A extends Abi, F extends ContractFunctionName<A, 'nonpayable' | 'payable'>>(
    from: Account,
    contract: Contract<A>,
    functionName: F,
    args: ContractFunctionArgs<A, 'nonpayable' | 'payable', F>,
    options?: { gas?: bigint },
  ): Promise<TransactionReceipt>
  deploy(from: Account, artifact: { abi: Abi; bytecode: Hex }, args: unknown[]): Promise<Hex>
  now(): Promise<bigint>
  /** Moves the clock forward by `seconds`, and mines a block. */
  warp(seconds: number | bigint): Promise<void>
  warpTo(timestamp: bigint): Promise<void>
  snapshot(): Promise<() => Promise<void>>
  setCode(address: Hex, code: Hex): Promise<void>
  request(method: string, params: unknown[]): Promise<unknown>
  close(): Promise<void>
}

export async function startChain(options: { chainId?: number } = {}): Promise<Chain> {
  const id = options.chainId ?? hardhat.id
  const environment = await createHardhatRuntimeEnvironment(
    {
      networks: {
        default: {
          type: 'edr-simulated',
          chainType: 'l1',
          chainId: id,
          hardfork: 'osaka',
          blockGasLimit: BLOCK_GAS,
        },
      },
    },
    {},
    PROJECT,
  )
  const connection = await environment.network.connect()
  return chainOver(id, custom(connection.provider, { retryCount: 0 }), () => connection.close())
}

/** Makes the functions that tests use for a chain, in this process or another. */
export function chainOver(id: number, transport: Transport, close: () => Promise<void>): Chain {
  const definition: ChainDefinition = { ...hardhat, id }
  const quick = { chain: definition, transport, cacheTime: 0, pollingInterval: 20 }
  const publicClient = createPublicClient(quick)
  const test = createTestClient({ ...quick, mode: 'hardhat' })
  const wallet = (account: Account) => createWalletClient({ ...quick, account })

  const chain: Chain = {
    id,
    publicClient,
    account: devnetAccount,
    wallet,
    async send(from, contract, functionName, args, options) {
      // Simulates the call first, so that a revert is decoded and thrown. The node has the keys of its own accounts, so
      // it signs the transaction.
      const call = {
        address: contract.address,
        abi: contract.abi as Abi,
        functionName: functionName as string,
        args: args as readonly unknown[],
        account: from.address,
        gas: options?.gas ?? 16_000_000n,
      }
      await publicClient.simulateContract(call)
      const hash = await createWalletClient({ chain: definition, transport }).writeContract({
        ...call,
        chain: definition,
      })
      const receipt = await publicClient.getTransactionReceipt({ hash })
      if (receipt.status !== 'success') throw new Error(`${String(functionName)} reverted`)
      return receipt
    },
    async deploy(from, { abi, bytecode }, args) {
      const hash = await createWalletClient({ chain: definition, transport }).deployContract({
        abi,
        bytecode,
        args,
        account: from.address,
        chain: definition,
        gas: 16_000_000n,
      })
      const { contractAddress } = await publicClient.getTransactionReceipt({ hash })
      if (!contractAddress) throw new Error('the deployment has no address')
      return getAddress(contractAddress)
    },
    async now() {
      return (await publicClient.getBlock({ blockTag: 'latest' })).timestamp
    },
    async warp(seconds) {
      await test.increaseTime({ seconds: Number(seconds) })
      await test.mine({ blocks: 1 })
    },
    async warpTo(timestamp) {
      await test.setNextBlockTimestamp({ timestamp })
      await test.mine({ blocks: 1 })
    },
    async snapshot() {
      const snapshotId = await test.snapshot()
      return () => test.revert({ id: snapshotId })
    },
    async setCode(address, code) {
      await test.setCode({ address, bytecode: code })
    },
    request: (method, params) => test.request({ method, params } as never),
    close,
  }
  return chain
}
