/**
 * Asks contract accounts whether they accept a signature (EIP-1271). Each query costs a call to an Ethereum node. So
 * queries are limited per client and per account, and a front sends at most `CONTRACT_SIGNATURES_AT_ONCE_MAX` queries
 * at the same time. An answer is remembered until the chain's next block.
 *
 * The settlement contract checks the signature again after the match. If the account rejects the signature then, the
 * trade fails by the fault of that trader, as if the trader had moved the funds.
 */

import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import {
  CONTRACT_SIGNATURES_AT_ONCE_MAX,
  CONTRACT_SIGNATURES_KEPT_MAX,
  CONTRACT_SIGNATURES_WAITING_MAX,
} from '#domain/limits.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { remember } from '#domain/remember.ts'
import type { Asker, ContractSignatureLimit } from '#http/limits.ts'
import { makeBoundedWork } from '#runtime/bounded-work.ts'
import { PoolFull } from '#runtime/pool.ts'

type Question = {
  readonly chainId: number
  readonly account: Address
  readonly digest: string
  readonly signature: string
}

type Answer = Promise<boolean | Rejection>

export type ContractSignatures = {
  /** Returns whether the account's code accepts the signature, or a rejection if the query cannot be made now. */
  accepts(question: Question, asker: Asker): Answer
  /**
   * Returns whether the account's code accepts the signature on every chain where the account has code. The same
   * address may have a different owner on each chain, for example the first account that deployed a contract there.
   */
  acceptEverywhere(question: Omit<Question, 'chainId'>, asker: Asker): Answer
  /** Forgets the answers of a chain. Call it when the chain has a new block. */
  advanced(chainId: number): void
}

export function makeContractSignatures(ports: {
  /**
   * Asks an Ethereum node whether the account's code accepts the signature. Returns false for a chain without
   * a node; throws a fault if the node does not answer before the timeout.
   */
  readonly ask: (question: Question) => Promise<boolean>
  /** Returns whether there is code at an address of the chain. Throws a fault in the same cases as `ask`. */
  readonly hasCode: (where: Pick<Question, 'chainId' | 'account'>) => Promise<boolean>
  readonly chainIds: Iterable<number>
  readonly limit?: ContractSignatureLimit | undefined
}): ContractSignatures {
  const answers = new Map<string, Answer>()
  const work = makeBoundedWork({
    underWayMax: CONTRACT_SIGNATURES_AT_ONCE_MAX,
    waitingMax: CONTRACT_SIGNATURES_WAITING_MAX,
  })

  async function ask(call: () => Promise<boolean>): Answer {
    try {
      return await work.run(call)
    } catch (error) {
      if (error instanceof PoolFull) {
        return reject(
          'OVERLOADED',
          undefined,
          'the exchange is checking too many signatures of contract accounts: retry shortly',
        )
      }
      if (!(error instanceof Fault)) throw error
      const detail =
        'the exchange cannot check the signature with the trader’s contract account now: retry shortly'
      return reject('CHAIN_UNAVAILABLE', 'signature', detail)
    }
  }

  /** Makes a query at most once per block, within the limits of the client and the account. */
  function once(
    { key, account, asker }: { key: string; account: Address; asker: Asker },
    call: () => Promise<boolean>,
  ): Answer {
    const known = answers.get(key)
    if (known !== undefined) return known
    const retryAfterSec = ports.limit?.draw(asker, account) ?? 0
    if (retryAfterSec > 0) {
      const detail = `too many signatures of contract accounts in a short time: wait ${retryAfterSec} s, or let a delegate sign`
      return Promise.resolve({ ...reject('RATE_LIMITED', 'signature', detail), retryAfterSec })
    }
    const answer = ask(call)
    remember(answers, key, answer, CONTRACT_SIGNATURES_KEPT_MAX)
    // Forget a failed query. It says nothing about the signature, so the next order queries again.
    void answer.then((result) => {
      if (typeof result !== 'boolean' && answers.get(key) === answer) answers.delete(key)
    })
    return answer
  }

  function accepts(question: Question, asker: Asker): Answer {
    const { chainId, account, digest, signature } = question
    const key = `${chainId} ${account} ${digest} ${signature.toLowerCase()}`
    return once({ key, account, asker }, () => ports.ask(question))
  }

  return {
    accepts,
    async acceptEverywhere(question, asker) {
      const { account } = question
      let isAccepted = false
      for (const chainId of ports.chainIds) {
        const accepted = await accepts({ chainId, ...question }, asker)
        if (accepted === true) isAccepted = true
        else if (accepted !== false) return accepted
        else {
          const key = `${chainId} ${account} code`
          const found = await once({ key, account, asker }, () =>
            ports.hasCode({ chainId, account }),
          )
          if (found !== false) return found === true ? false : found
        }
      }
      return isAccepted
    },
    advanced(chainId) {
      const prefix = `${chainId} `
      for (const key of answers.keys()) if (key.startsWith(prefix)) answers.delete(key)
    },
  }
}
