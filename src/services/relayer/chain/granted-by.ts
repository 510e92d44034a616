/** Checks, by the receipt of a transaction, whether the transaction set the approval or allowance of an operation. */

import { parseEventLogs } from 'viem'
import { asked, type ChainClient } from '#chain/clients.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import type { Address } from '#domain/ids.ts'
import type { CtfApproval, StablecoinPermit } from '#domain/relay.ts'

const ABI = [...conditionalTokensAbi, ...testUSDCAbi] as const

export async function isGrantedBy(
  client: ChainClient,
  contracts: { readonly conditionalTokens: Address; readonly stablecoin: Address },
  operation: CtfApproval | StablecoinPermit,
  txHash: string,
): Promise<boolean> {
  const { logs } = await asked(client.viem.getTransactionReceipt({ hash: txHash as `0x${string}` }))
  const said = parseEventLogs({ abi: ABI, logs, eventName: ['ApprovalForAll', 'Approval'] })
  const isSame = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase()
  return said.some((log) => {
    const { owner } = operation
    if (log.eventName === 'ApprovalForAll') {
      if (operation.kind !== 'ctf-approval') return false
      const { args } = log
      return (
        isSame(log.address, contracts.conditionalTokens) &&
        isSame(args.account, owner) &&
        isSame(args.operator, operation.operator) &&
        args.approved === operation.approved
      )
    }
    if (operation.kind !== 'stablecoin-permit') return false
    const { args } = log
    return (
      isSame(log.address, contracts.stablecoin) &&
      isSame(args.owner, owner) &&
      isSame(args.spender, operation.spender) &&
      args.value === BigInt(operation.value)
    )
  })
}
