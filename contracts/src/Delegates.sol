// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

/// Decides which signatures count for an account in `Settlement`, besides signatures of the account's own key. These
/// are signatures of keys that the account appointed (delegates), and signatures that the account's code accepts
/// (EIP-1271). `Settlement` deploys and queries this contract. It has no owner, holds no funds and moves no funds.
///
/// A delegate can sign orders and cancellations of single orders. It cannot appoint, approve, move or redeem anything,
/// because no other contract queries this one. An appointment may contain limits. The exchange checks them before it
/// matches, and `Settlement` does not know them.
contract Delegates is EIP712 {
    /// Limits of a delegate. A number of 0 means no limit. An empty list of markets means all
    /// markets.
    struct Limits {
        /// The largest order, in shares with six decimals.
        uint64 maxOrderSize;
        /// Maximum value (price × open size) of all open orders that the delegate signed, in
        /// collateral with six decimals.
        uint64 maxOpenNotional;
        bytes32[] markets;
    }

    uint256 public constant MARKETS_MAX = 32;
    /// Gas limit of the call of an account's `isValidSignature`. A Safe with one owner needs
    /// about 30,000.
    uint256 public constant SIGNATURE_GAS = 100_000;

    /// Every change of a delegate increases the account's nonce. `setDelegate` needs no signature, but it increases the
    /// nonce, too. So a signature from before a revocation cannot restore the delegate.
    bytes32 public constant SET_DELEGATE_TYPEHASH = keccak256(
        "SetDelegate(address account,address delegate,uint64 until,uint64 maxOrderSize,uint64 maxOpenNotional,bytes32[] markets,uint256 nonce,uint256 deadline)"
    );

    uint64 public immutable settlementGrace;
    uint64 public immutable cancelDelay;

    struct Term {
        /// End of the delegate's term. Until then the exchange accepts orders of the delegate, and
        /// the delegate may cancel orders.
        uint64 until;
        /// Trades may settle until this time if the delegate signed one of their orders.
        uint64 settlesUntil;
    }

    mapping(address account => uint256) public nonces;
    mapping(address account => mapping(address delegate => Term)) private _terms;

    /// From `until` on, the exchange accepts no order of this delegate. If `until` is in the past, the delegate is
    /// revoked at once. Trades that were already matched may settle until `settlesUntil`.
    event DelegateSet(
        address indexed account,
        address indexed delegate,
        uint64 until,
        uint64 settlesUntil,
        uint64 maxOrderSize,
        uint64 maxOpenNotional,
        bytes32[] markets
    );

    error InvalidDelegate(address delegate);
    error TooManyMarkets(uint256 count);
    error PermitExpired(uint256 deadline);
    error PermitNotSigned(address account);

    constructor(uint64 settlementGrace_, uint64 cancelDelay_) EIP712("SibylDelegates", "1") {
        settlementGrace = settlementGrace_;
        cancelDelay = cancelDelay_;
    }

    /// Appoints `delegate` for the caller until `until` (Unix seconds), or changes its time and
    /// limits. If `until` is zero, revokes the delegate.
    function setDelegate(address delegate, uint64 until, Limits calldata limits) external {
        ++nonces[msg.sender];
        _setDelegate(msg.sender, delegate, until, limits);
    }

    /// Does `setDelegate` for `account`. Any caller may send the account's signature: one made by
    /// the account's key, or one that the account's code accepts. A delegate's signature is not
    /// enough.
    function setDelegateWithPermit(
        address account,
        address delegate,
        uint64 until,
        Limits calldata limits,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        if (block.timestamp > deadline) revert PermitExpired(deadline);
        // Increase the nonce before the account's code runs, because that code may call this
        // contract.
        bytes32 digest = _digest(account, delegate, until, limits, nonces[account]++, deadline);
        (address signer,,) = ECDSA.tryRecover(digest, v, r, s);
        bool isSigned = signer == account && signer != address(0);
        if (!isSigned && !_isAccepted(account, digest, v, r, s)) revert PermitNotSigned(account);
        _setDelegate(account, delegate, until, limits);
    }

    /// Returns whether a signature of a digest counts as the account's. `signer` is the address that the caller
    /// recovered from the signature. The signature counts if `signer` is a delegate before its `settlesUntil`, or if
    /// the account's code accepts the signature. Costs at most `SIGNATURE_GAS` plus about 20,000 gas, and changes no
    /// state.
    function isSigner(
        address account,
        address signer,
        bytes32 digest,
        bytes32 r,
        bytes32 vs
    ) external view returns (bool) {
        if (signer != address(0) && block.timestamp <= settlesUntil(account, signer)) return true;
        bytes32 s = vs & bytes32(uint256(type(int256).max));
        return _isAccepted(account, digest, uint8(uint256(vs) >> 255) + 27, r, s);
    }

    /// Returns whether the delegate's term has not ended and the account has not revoked the delegate. Only such a
    /// delegate may cancel orders. A revoked key may be stolen, so it must not cancel orders, although orders that it
    /// signed may still settle for up to `cancelDelay`.
    function isCurrent(address account, address delegate) external view returns (bool) {
        return delegate != address(0) && block.timestamp < _terms[account][delegate].until;
    }

    /// Returns the time until which trades may settle if the delegate signed one of their orders.
    function settlesUntil(address account, address delegate) public view returns (uint64) {
        return _terms[account][delegate].settlesUntil;
    }

    function DOMAIN_SEPARATOR() external view returns (bytes32) {
        return _domainSeparatorV4();
    }

    function _setDelegate(address account, address delegate, uint64 until, Limits calldata limits)
        private
    {
        if (delegate == address(0) || delegate == account) revert InvalidDelegate(delegate);
        if (limits.markets.length > MARKETS_MAX) revert TooManyMarkets(limits.markets.length);
        uint256 settles = until == 0 ? 0 : uint256(until) + settlementGrace;
        if (settles > type(uint64).max) settles = type(uint64).max;
        // If the new `settlesUntil` is earlier than the old one, it takes effect only after `cancelDelay`, like a
        // cancellation on chain. Otherwise an account could revoke the delegate to avoid a trade that is already
        // matched.
        uint256 before = settlesUntil(account, delegate);
        if (settles < before) {
            uint256 soonest = block.timestamp + cancelDelay;
            if (soonest > before) soonest = before;
            if (settles < soonest) settles = soonest;
        }
        _terms[account][delegate] = Term({until: until, settlesUntil: uint64(settles)});
        emit DelegateSet(
            account,
            delegate,
            until,
            uint64(settles),
            limits.maxOrderSize,
            limits.maxOpenNotional,
            limits.markets
        );
    }

    function _digest(
        address account,
        address delegate,
        uint64 until,
        Limits calldata limits,
        uint256 nonce,
        uint256 deadline
    ) private view returns (bytes32) {
        return _hashTypedDataV4(
            keccak256(
                abi.encode(
                    SET_DELEGATE_TYPEHASH,
                    account,
                    delegate,
                    until,
                    limits.maxOrderSize,
                    limits.maxOpenNotional,
                    keccak256(abi.encodePacked(limits.markets)),
                    nonce,
                    deadline
                )
            )
        );
    }

    /// Returns whether the account's code accepts the signature. The call has a gas limit, cannot
    /// change state, and copies at most one word of the returned data.
    function _isAccepted(address account, bytes32 digest, uint8 v, bytes32 r, bytes32 s)
        private
        view
        returns (bool accepted)
    {
        if (account.code.length == 0) return false;
        bytes memory data =
            abi.encodeCall(IERC1271.isValidSignature, (digest, abi.encodePacked(r, s, v)));
        bytes32 magic = bytes32(IERC1271.isValidSignature.selector);
        assembly ("memory-safe") {
            accepted := staticcall(
                SIGNATURE_GAS, account, add(data, 0x20), mload(data), 0x00, 0x20
            )
            accepted := and(
                accepted, and(gt(returndatasize(), 0x1f), eq(mload(0x00), magic))
            )
        }
    }
}
