// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Nonces} from "@openzeppelin/contracts/utils/Nonces.sol";
import {CheckedMath} from "./CheckedMath.sol";
import {CTHelpers} from "./CTHelpers.sol";
import {ERC1155Ledger} from "./ERC1155Ledger.sol";

/// Outcome tokens backed by collateral: the Gnosis Conditional Tokens with the same functions, ids, events and revert
/// reasons. A holder without gas can also sign two operations for another account to send: approving an operator, and
/// redeeming. The contract has no owner and no privileged caller. Only a condition's oracle, which is part of the
/// condition's id, decides what its outcomes pay.
///
/// Worked example: Ann splits 100 USDC on a condition with two outcomes and holds 100 of each outcome token. The oracle
/// reports [1, 0]. Ann redeems index sets [1, 2]. The first outcome pays 100 USDC, the second pays nothing, and both
/// balances are burnt.
contract ConditionalTokens is ERC1155Ledger, EIP712, Nonces {
    using CheckedMath for uint256;

    bytes32 public constant APPROVAL_FOR_ALL_TYPEHASH = keccak256(
        "ApprovalForAll(address owner,address operator,bool approved,uint256 nonce,uint256 deadline)"
    );
    bytes32 public constant REDEEM_POSITIONS_TYPEHASH = keccak256(
        "RedeemPositions(address owner,address collateralToken,bytes32 parentCollectionId,bytes32 conditionId,uint256[] indexSets,uint256 nonce,uint256 deadline)"
    );

    event ConditionPreparation(
        bytes32 indexed conditionId,
        address indexed oracle,
        bytes32 indexed questionId,
        uint256 outcomeSlotCount
    );
    event ConditionResolution(
        bytes32 indexed conditionId,
        address indexed oracle,
        bytes32 indexed questionId,
        uint256 outcomeSlotCount,
        uint256[] payoutNumerators
    );
    event PositionSplit(
        address indexed stakeholder,
        IERC20 collateralToken,
        bytes32 indexed parentCollectionId,
        bytes32 indexed conditionId,
        uint256[] partition,
        uint256 amount
    );
    event PositionsMerge(
        address indexed stakeholder,
        IERC20 collateralToken,
        bytes32 indexed parentCollectionId,
        bytes32 indexed conditionId,
        uint256[] partition,
        uint256 amount
    );
    event PayoutRedemption(
        address indexed redeemer,
        IERC20 indexed collateralToken,
        bytes32 indexed parentCollectionId,
        bytes32 conditionId,
        uint256[] indexSets,
        uint256 payout
    );

    /// The deadline of a signed approval or redemption has passed.
    error PermitExpired(uint256 deadline);
    /// The signature was made by another account, or for other data (another nonce, chain or
    /// contract).
    error PermitSignerMismatch(address signer, address owner);

    /// Payout numerators by condition id. The list is empty until the condition is prepared.
    mapping(bytes32 conditionId => uint256[]) public payoutNumerators;
    /// Payout denominators by condition id. A denominator is 0 until its condition is resolved.
    mapping(bytes32 conditionId => uint256) public payoutDenominator;

    constructor() EIP712("SibylConditionalTokens", "1") {}

    function prepareCondition(address oracle, bytes32 questionId, uint256 outcomeSlotCount)
        external
    {
        // An index set is a 256-bit number with one bit per outcome. So a condition has at most 256 outcomes.
        require(outcomeSlotCount <= 256, "too many outcome slots");
        require(outcomeSlotCount > 1, "there should be more than one outcome slot");
        bytes32 conditionId = CTHelpers.getConditionId(oracle, questionId, outcomeSlotCount);
        require(payoutNumerators[conditionId].length == 0, "condition already prepared");
        payoutNumerators[conditionId] = new uint256[](outcomeSlotCount);
        emit ConditionPreparation(conditionId, oracle, questionId, outcomeSlotCount);
    }

    /// Reports the payouts of a condition. Only the condition's oracle can do this, because the
    /// caller's address is part of the condition's id.
    function reportPayouts(bytes32 questionId, uint256[] calldata payouts) external {
        uint256 outcomeSlotCount = payouts.length;
        require(outcomeSlotCount > 1, "there should be more than one outcome slot");
        bytes32 conditionId = CTHelpers.getConditionId(msg.sender, questionId, outcomeSlotCount);
        uint256[] storage numerators = payoutNumerators[conditionId];
        require(numerators.length == outcomeSlotCount, "condition not prepared or found");
        require(payoutDenominator[conditionId] == 0, "payout denominator already set");

        uint256 denominator = 0;
        for (uint256 i = 0; i < outcomeSlotCount; ++i) {
            denominator = denominator.add(payouts[i]);
            numerators[i] = payouts[i];
        }
        require(denominator > 0, "payout is all zeroes");
        payoutDenominator[conditionId] = denominator;
        emit ConditionResolution(conditionId, msg.sender, questionId, outcomeSlotCount, payouts);
    }

    /// Takes collateral, or a position that covers the union of the index sets, and mints one position per index set.
    function splitPosition(
        IERC20 collateralToken,
        bytes32 parentCollectionId,
        bytes32 conditionId,
        uint256[] calldata partition,
        uint256 amount
    ) external {
        (uint256[] memory positionIds, uint256[] memory amounts, uint256 covered, bool whole) =
            _positions(collateralToken, parentCollectionId, conditionId, partition, amount);

        if (!whole) {
            bytes32 collectionId =
                CTHelpers.getCollectionId(parentCollectionId, conditionId, covered);
            _burn(msg.sender, CTHelpers.getPositionId(collateralToken, collectionId), amount);
        } else if (parentCollectionId == bytes32(0)) {
            require(
                collateralToken.transferFrom(msg.sender, address(this), amount),
                "could not receive collateral tokens"
            );
        } else {
            _burn(
                msg.sender, CTHelpers.getPositionId(collateralToken, parentCollectionId), amount
            );
        }

        _batchMint(msg.sender, positionIds, amounts);
        emit PositionSplit(
            msg.sender, collateralToken, parentCollectionId, conditionId, partition, amount
        );
    }

    /// The inverse of `splitPosition`.
    function mergePositions(
        IERC20 collateralToken,
        bytes32 parentCollectionId,
        bytes32 conditionId,
        uint256[] calldata partition,
        uint256 amount
    ) external {
        (uint256[] memory positionIds, uint256[] memory amounts, uint256 covered, bool whole) =
            _positions(collateralToken, parentCollectionId, conditionId, partition, amount);

        _batchBurn(msg.sender, positionIds, amounts);

        if (!whole) {
            bytes32 collectionId =
                CTHelpers.getCollectionId(parentCollectionId, conditionId, covered);
            _mint(msg.sender, CTHelpers.getPositionId(collateralToken, collectionId), amount);
        } else if (parentCollectionId == bytes32(0)) {
            require(
                collateralToken.transfer(msg.sender, amount), "could not send collateral tokens"
            );
        } else {
            _mint(
                msg.sender, CTHelpers.getPositionId(collateralToken, parentCollectionId), amount
            );
        }

        emit PositionsMerge(
            msg.sender, collateralToken, parentCollectionId, conditionId, partition, amount
        );
    }

    /// Burns the caller's whole balance of each index set, and pays out the value of these
    /// balances.
    function redeemPositions(
        IERC20 collateralToken,
        bytes32 parentCollectionId,
        bytes32 conditionId,
        uint256[] calldata indexSets
    ) external {
        _redeem(msg.sender, collateralToken, parentCollectionId, conditionId, indexSets);
    }

    /// Does `setApprovalForAll` for `owner`. Any caller may send the owner's signature.
    function setApprovalForAllWithPermit(
        address owner,
        address operator,
        bool approved,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        bytes32 structHash = keccak256(
            abi.encode(
                APPROVAL_FOR_ALL_TYPEHASH, owner, operator, approved, _useNonce(owner), deadline
            )
        );
        _requireSigned(structHash, owner, deadline, v, r, s);
        _setApprovalForAll(owner, operator, approved);
    }

    /// Does `redeemPositions` for `owner`. Any caller may send the owner's signature. The payout
    /// goes to `owner`.
    function redeemPositionsWithPermit(
        address owner,
        IERC20 collateralToken,
        bytes32 parentCollectionId,
        bytes32 conditionId,
        uint256[] calldata indexSets,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        bytes32 structHash = _hashRedemption(
            owner, collateralToken, parentCollectionId, conditionId, indexSets, deadline
        );
        _requireSigned(structHash, owner, deadline, v, r, s);
        _redeem(owner, collateralToken, parentCollectionId, conditionId, indexSets);
    }

    function DOMAIN_SEPARATOR() external view returns (bytes32) {
        return _domainSeparatorV4();
    }

    function getOutcomeSlotCount(bytes32 conditionId) external view returns (uint256) {
        return payoutNumerators[conditionId].length;
    }

    function getConditionId(address oracle, bytes32 questionId, uint256 outcomeSlotCount)
        external
        pure
        returns (bytes32)
    {
        return CTHelpers.getConditionId(oracle, questionId, outcomeSlotCount);
    }

    function getCollectionId(bytes32 parentCollectionId, bytes32 conditionId, uint256 indexSet)
        external
        view
        returns (bytes32)
    {
        return CTHelpers.getCollectionId(parentCollectionId, conditionId, indexSet);
    }

    function getPositionId(IERC20 collateralToken, bytes32 collectionId)
        external
        pure
        returns (uint256)
    {
        return CTHelpers.getPositionId(collateralToken, collectionId);
    }

    function _hashRedemption(
        address owner,
        IERC20 collateralToken,
        bytes32 parentCollectionId,
        bytes32 conditionId,
        uint256[] calldata indexSets,
        uint256 deadline
    ) private returns (bytes32) {
        return keccak256(
            abi.encode(
                REDEEM_POSITIONS_TYPEHASH,
                owner,
                collateralToken,
                parentCollectionId,
                conditionId,
                keccak256(abi.encodePacked(indexSets)),
                _useNonce(owner),
                deadline
            )
        );
    }

    function _redeem(
        address owner,
        IERC20 collateralToken,
        bytes32 parentCollectionId,
        bytes32 conditionId,
        uint256[] calldata indexSets
    ) private {
        uint256 denominator = payoutDenominator[conditionId];
        require(denominator > 0, "result for condition not received yet");
        uint256[] storage numerators = payoutNumerators[conditionId];
        uint256 fullIndexSet = _fullIndexSet(numerators.length);

        uint256 payout = 0;
        for (uint256 i = 0; i < indexSets.length; ++i) {
            uint256 indexSet = indexSets[i];
            require(indexSet > 0 && indexSet < fullIndexSet, "got invalid index set");
            uint256 positionId = CTHelpers.getPositionId(
                collateralToken,
                CTHelpers.getCollectionId(parentCollectionId, conditionId, indexSet)
            );
            uint256 stake = balanceOf(owner, positionId);
            if (stake > 0) {
                payout = payout.add(stake.mul(_numerator(numerators, indexSet)) / denominator);
                _burn(owner, positionId, stake);
            }
        }

        if (payout > 0) {
            if (parentCollectionId == bytes32(0)) {
                require(
                    collateralToken.transfer(owner, payout),
                    "could not transfer payout to message sender"
                );
            } else {
                _mint(owner, CTHelpers.getPositionId(collateralToken, parentCollectionId), payout);
            }
        }
        emit PayoutRedemption(
            owner, collateralToken, parentCollectionId, conditionId, indexSets, payout
        );
    }

    /// Returns the position ids of a partition. Reverts if an index set is invalid, or if two index
    /// sets overlap. `covered` is the union of the index sets. `whole` is true if the union
    /// contains every outcome.
    function _positions(
        IERC20 collateralToken,
        bytes32 parentCollectionId,
        bytes32 conditionId,
        uint256[] calldata partition,
        uint256 amount
    )
        private
        view
        returns (
            uint256[] memory positionIds,
            uint256[] memory amounts,
            uint256 covered,
            bool whole
        )
    {
        require(partition.length > 1, "got empty or singleton partition");
        uint256 outcomeSlotCount = payoutNumerators[conditionId].length;
        require(outcomeSlotCount > 0, "condition not prepared yet");

        uint256 fullIndexSet = _fullIndexSet(outcomeSlotCount);
        positionIds = new uint256[](partition.length);
        amounts = new uint256[](partition.length);
        for (uint256 i = 0; i < partition.length; ++i) {
            uint256 indexSet = partition[i];
            require(indexSet > 0 && indexSet < fullIndexSet, "got invalid index set");
            require(covered & indexSet == 0, "partition not disjoint");
            covered |= indexSet;
            positionIds[i] = CTHelpers.getPositionId(
                collateralToken,
                CTHelpers.getCollectionId(parentCollectionId, conditionId, indexSet)
            );
            amounts[i] = amount;
        }
        whole = covered == fullIndexSet;
    }

    function _numerator(uint256[] storage numerators, uint256 indexSet)
        private
        view
        returns (uint256 sum)
    {
        uint256 outcomeSlotCount = numerators.length;
        for (uint256 i = 0; i < outcomeSlotCount; ++i) {
            if (indexSet & (1 << i) != 0) sum = sum.add(numerators[i]);
        }
    }

    /// With 256 outcomes, the shift gives 0. The subtraction then wraps around and sets all 256 bits, one per outcome.
    function _fullIndexSet(uint256 outcomeSlotCount) private pure returns (uint256) {
        unchecked {
            return (1 << outcomeSlotCount) - 1;
        }
    }

    function _requireSigned(
        bytes32 structHash,
        address owner,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) private view {
        if (block.timestamp > deadline) revert PermitExpired(deadline);
        (address signer,,) = ECDSA.tryRecover(_hashTypedDataV4(structHash), v, r, s);
        if (signer == address(0) || signer != owner) revert PermitSignerMismatch(signer, owner);
    }
}
