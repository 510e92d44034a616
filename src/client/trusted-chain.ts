/**
 * Decides for which contracts the client signs. A dishonest or impersonated exchange must not obtain a signature for
 * another chain, token or spender. If the caller pinned a contract's address, the exchange must return that address.
 * Otherwise it must always return the address of its first answer. The SDK builds the typed data from its own types.
 * Only the contracts' addresses and the stablecoin's name and version come from `/api/v1/config`.
 */

import { type Address, parseAddress } from '#domain/ids.ts'
import { signatureSchemes } from '#domain/typed-data.ts'
import type { ChainConfig } from '#protocol/shapes/config.ts'
import { SibylError } from './sibyl-error.ts'

/** The contracts whose addresses are part of signed data. */
const SIGNED_CONTRACTS = ['settlement', 'conditionalTokens', 'stablecoin'] as const

export type ContractPins = Partial<Readonly<Record<(typeof SIGNED_CONTRACTS)[number], string>>>

type SignedContracts = Readonly<Record<(typeof SIGNED_CONTRACTS)[number], Address>>

/** Returns the chain that the client may sign for; throws `EXCHANGE_CHANGED` if a contract is not the expected one. */
export type TrustChain = (chain: ChainConfig) => ChainConfig

export function createTrust(pins: ContractPins): TrustChain {
  const pinned = readPins(pins)
  const first = new Map<number, SignedContracts>()

  return (chain) => {
    const { chainId } = chain
    const said = contractsOf(chain)
    const remembered = first.get(chainId)
    for (const name of SIGNED_CONTRACTS) {
      const expected = pinned[name] ?? remembered?.[name]
      if (expected === undefined || expected === said[name]) continue
      const origin = pinned[name] === undefined ? 'its first answer was' : 'createClient was given'
      throw new SibylError(
        'EXCHANGE_CHANGED',
        `the ${name} address on chain ${chainId} differs: the exchange now gives ${said[name]}, but ${origin} ${expected}; nothing was signed`,
        { field: `pins.${name}` },
      )
    }
    first.set(chainId, said)
    const { name, version } = chain.signatures.stablecoinPermit.domain
    const stablecoin = { address: said.stablecoin, domainName: name, domainVersion: version }
    return { ...chain, signatures: signatureSchemes({ chainId, ...said, stablecoin }) }
  }
}

function readPins(pins: ContractPins): Partial<SignedContracts> {
  const read = new Map<string, Address>()
  for (const name of SIGNED_CONTRACTS) {
    const text = pins[name]
    if (text === undefined) continue
    const address = parseAddress(text)
    if (address === undefined) {
      const message = `pins.${name}: '${text}' is not 0x and 40 hex digits`
      throw new SibylError('INVALID_FIELD', message, { field: `pins.${name}` })
    }
    read.set(name, address)
  }
  return Object.fromEntries(read)
}

function contractsOf({ chainId, contracts, stablecoin }: ChainConfig): SignedContracts {
  const addressOf = (name: keyof SignedContracts): Address => {
    const address = parseAddress(contracts[name] ?? '')
    if (address !== undefined) return address
    throw new SibylError(
      'UNEXPECTED_ANSWER',
      `the configuration of the exchange has no valid ${name} address for chain ${chainId}`,
    )
  }
  const token = addressOf('stablecoin')
  if (parseAddress(stablecoin.address) !== token) {
    const message =
      `the configuration of the exchange contains two different stablecoin addresses for chain ${chainId}: ` +
      `${token} and ${stablecoin.address}`
    throw new SibylError('UNEXPECTED_ANSWER', message)
  }
  return {
    settlement: addressOf('settlement'),
    conditionalTokens: addressOf('conditionalTokens'),
    stablecoin: token,
  }
}
