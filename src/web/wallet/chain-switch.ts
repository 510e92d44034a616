/** Switches a wallet to the chain of the exchange, and adds the chain if the wallet does not know it. */

import { NATIVE_CURRENCY } from '#domain/native-currency.ts'
import type { ChainConfig } from '#protocol/shapes/config.ts'
import type { Provider } from './provider.ts'

const UNKNOWN_CHAIN = 4902

export async function switchChain(provider: Provider, chain: ChainConfig): Promise<void> {
  const chainId = `0x${chain.chainId.toString(16)}`
  const current = String(await provider.request({ method: 'eth_chainId' }))
  if (BigInt(current) === BigInt(chainId)) return
  try {
    await provider.request({ method: 'wallet_switchEthereumChain', params: [{ chainId }] })
  } catch (error) {
    if ((error as { code?: unknown }).code !== UNKNOWN_CHAIN || chain.rpcUrl === undefined)
      throw error
    const added = {
      chainId,
      chainName: chain.role === 'test' ? `Test chain ${chain.chainId}` : `Chain ${chain.chainId}`,
      nativeCurrency: NATIVE_CURRENCY,
      rpcUrls: [chain.rpcUrl],
    }
    await provider.request({ method: 'wallet_addEthereumChain', params: [added] })
  }
}
