/**
 * Deploys UMA's oracle and Sibyl's contracts, in the order that their constructors need. The functions use
 * only `deploy` and `send` of the given chain, so they work with the devnet's batches and the tests' single
 * calls.
 */
import { type Abi, type Account, type Hex, padHex, stringToHex } from 'viem'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { multicallAbi } from '#contracts/artifacts/Multicall.abi.ts'
import { settlementAbi } from '#contracts/artifacts/Settlement.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import { type Contract, ours, uma } from './artifact.ts'

export type Deployer = {
  deploy(from: Account, artifact: { abi: Abi; bytecode: Hex }, args: unknown[]): Promise<Hex>
  send(
    from: Account,
    contract: Contract,
    functionName: string,
    args: readonly unknown[],
  ): Promise<unknown>
}

export type Settings = {
  /** The account that owns the contracts; on the devnet it also deploys them. */
  readonly owner: Account
  readonly settlementOperator: Hex
  readonly marketOperator: Hex
  readonly maker: Hex
  readonly settlementGraceSeconds: bigint
  readonly cancelDelaySeconds: bigint
  readonly disputeSeconds: bigint
  readonly bond: bigint
  /** UMA's final fee; the oracle's minimum bond is twice this fee. */
  readonly finalFee: bigint
}

export type Oracle = {
  readonly oracle: Contract
  readonly arbiter: Contract
  readonly store: Contract
  readonly identifierWhitelist: Contract
}

export type Deployment = Oracle & {
  readonly collateral: Contract<typeof testUSDCAbi>
  readonly conditionalTokens: Contract<typeof conditionalTokensAbi>
  readonly settlement: Contract<typeof settlementAbi>
  readonly factory: Contract<typeof marketFactoryAbi>
  readonly multicall: Contract<typeof multicallAbi>
}

const DVM = 'data-verification-mechanism'

export async function deployAll(chain: Deployer, settings: Settings): Promise<Deployment> {
  const { owner } = settings
  const collateral = {
    address: await chain.deploy(owner, ours('TestUSDC'), [owner.address]),
    abi: testUSDCAbi,
  }
  const conditionalTokens = {
    address: await chain.deploy(owner, ours('ConditionalTokens'), []),
    abi: conditionalTokensAbi,
  }
  const uma = await deployOracle(chain, settings, collateral.address)
  const settlement = {
    address: await chain.deploy(owner, ours('Settlement'), [
      collateral.address,
      conditionalTokens.address,
      owner.address,
      settings.settlementOperator,
      settings.settlementGraceSeconds,
      settings.cancelDelaySeconds,
    ]),
    abi: settlementAbi,
  }
  const factory = {
    address: await chain.deploy(owner, ours('MarketFactory'), [
      collateral.address,
      conditionalTokens.address,
      uma.oracle.address,
      settings.disputeSeconds,
      settings.bond,
      owner.address,
      settings.marketOperator,
      settings.maker,
    ]),
    abi: marketFactoryAbi,
  }
  const multicall = {
    address: await chain.deploy(owner, ours('Multicall'), []),
    abi: multicallAbi,
  }
  return { ...uma, collateral, conditionalTokens, settlement, factory, multicall }
}

/**
 * Deploys UMA's real OptimisticOracleV3. Disputes are decided by UMA's mock instead of a vote of the token holders. The
 * oracle is deployed last, because its constructor reads the other contracts' addresses from UMA's `Finder`.
 */
export async function deployOracle(
  chain: Deployer,
  settings: Pick<Settings, 'owner' | 'disputeSeconds' | 'finalFee'>,
  currency: Hex,
): Promise<Oracle> {
  const { owner } = settings
  const create = async (path: string, args: unknown[]): Promise<Contract> => {
    const artifact = uma(path)
    return { address: await chain.deploy(owner, artifact, args), abi: artifact.abi }
  }
  const noTimer = padHex('0x', { size: 20 })
  const finder = await create(`${DVM}/implementation/Finder`, [])
  const identifierWhitelist = await create(`${DVM}/implementation/IdentifierWhitelist`, [])
  const collateralWhitelist = await create('common/implementation/AddressWhitelist', [])
  const store = await create(`${DVM}/implementation/Store`, [
    { rawValue: 0n },
    { rawValue: 0n },
    noTimer,
  ])
  const arbiter = await create(`${DVM}/test/MockOracleAncillary`, [finder.address, noTimer])

  await chain.send(owner, identifierWhitelist, 'addSupportedIdentifier', [name('ASSERT_TRUTH')])
  await chain.send(owner, collateralWhitelist, 'addToWhitelist', [currency])
  await chain.send(owner, store, 'setFinalFee', [currency, { rawValue: settings.finalFee }])
  const entries: [string, Contract][] = [
    ['IdentifierWhitelist', identifierWhitelist],
    ['CollateralWhitelist', collateralWhitelist],
    ['Store', store],
    ['Oracle', arbiter],
  ]
  for (const [key, contract] of entries) {
    await chain.send(owner, finder, 'changeImplementationAddress', [name(key), contract.address])
  }
  const oracle = await create('optimistic-oracle-v3/implementation/OptimisticOracleV3', [
    finder.address,
    currency,
    settings.disputeSeconds,
  ])
  return { oracle, arbiter, store, identifierWhitelist }
}

function name(text: string): Hex {
  return stringToHex(text, { size: 32 })
}
