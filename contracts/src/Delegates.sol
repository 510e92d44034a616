// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

/// Says who besides an account's own key may sign for it in `Settlement`, which deploys this
/// contract and asks it: keys that the account appointed (delegates), and the account's code
/// (EIP-1271). It has no owner, holds nothing and moves nothing.
///
/// A delegate signs orders and cancellations of single orders. It cannot appoint, approve, move or
/// redeem anything: no other contract asks here. The limits in an appointment are for the exchange,
/// which checks them before it matches; `Settlement` does not know them.
contract Delegates is EIP712 {
    /// Zero means no limit; an empty list means all markets.
    struct Limits {
        /// The largest order, in shares with six decimals.
        uint64 maxOrderSize;
        /// The sum of price × open size of all open orders that the delegate signed.
        uint64 maxOpenNotional;
        bytes32[] markets;
    }

    uint256 public constant MARKETS_MAX = 32;
    /// Gas of an account's `isValidSignature`. A Safe with one owner needs about 30,000.
    uint256 public constant SIGNATURE_GAS = 100_000;

    /// The nonce rises with every change, a direct one too: an old signature cannot bring back what
    /// the account has since revoked.
    bytes32 public constant SET_DELEGATE_TYPEHASH = keccak256(
        "SetDelegate(address account,address delegate,uint64 until,uint64 maxOrderSize,uint64 maxOpenNotional,bytes32[] markets,uint256 nonce,uint256 deadline)"
    );

    uint64 public immutable settlementGrace;
    uint64 public immutable cancelDelay;

    struct Term {
        /// Until when the exchange takes orders of the delegate, and the delegate cancels orders.
        uint64 until;
        /// Until when trades of orders that the delegate signed may settle.
        uint64 settlesUntil;
    }

    mapping(address account => uint256) public nonces;
    mapping(address account => mapping(address delegate => Term)) private _terms;

    /// From `until` on the exchange takes no order of this delegate; at once if it is in the past,
    /// which revokes. Trades that were matched before settle until `settlesUntil`.
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

    /// Appoints a key of the caller until a time (Unix seconds), or changes its time and limits.
    /// Zero revokes.
    function setDelegate(address delegate, uint64 until, Limits calldata limits) external {
        ++nonces[msg.sender];
        _setDelegate(msg.sender, delegate, until, limits);
    }

    /// `setDelegate` for `account`, by any caller with its signature: of its key, or one that its
    /// code accepts. A delegate's signature does not do.
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
        // Raised before the account's code runs, which may call back.
        bytes32 digest = _digest(account, delegate, until, limits, nonces[account]++, deadline);
        (address signer,,) = ECDSA.tryRecover(digest, v, r, s);
        bool isSigned = signer == account && signer != address(0);
        if (!isSigned && !_isAccepted(account, digest, v, r, s)) revert PermitNotSigned(account);
        _setDelegate(account, delegate, until, limits);
    }

    /// Whether this signature of a digest counts as the account's: `signer`, which the caller
    /// recovered, is a delegate, or the account has code that accepts it. Never costs more than
    /// `SIGNATURE_GAS` and some 20,000 gas, and changes nothing.
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

    /// Whether the delegate's time has not ended and the account has not revoked it. From then on it
    /// signs no cancellations: a stolen key could keep the account from trading for `cancelDelay`.
    function isCurrent(address account, address delegate) external view returns (bool) {
        return delegate != address(0) && block.timestamp < _terms[account][delegate].until;
    }

    /// Until when trades of orders that the delegate signed may settle.
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
        // An earlier end waits like a cancellation on chain, so that revoking is never a free
        // option against a match already made.
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

    /// Asks the account's code, with a limit on its gas, without letting it change anything, and
    /// without copying more than one word of what it returns.
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
